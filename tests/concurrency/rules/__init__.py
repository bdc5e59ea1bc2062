"""The rules that hold the system together without gap locks, each with its guard and with the guard taken away."""
