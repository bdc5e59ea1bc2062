"""Who may do what where: grants, who asked for them and who confirmed them."""
