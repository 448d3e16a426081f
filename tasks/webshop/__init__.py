"""WebShop: find the right product and buy it."""
