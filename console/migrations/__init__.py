"""Migrations of the tables that the console owns."""
