"""What all figures and self-contained pages share, and the page of training curves."""
