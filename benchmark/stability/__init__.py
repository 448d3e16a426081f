"""How steadily a recipe learns: numbers of one training run, of its seeds, and between recipes."""
