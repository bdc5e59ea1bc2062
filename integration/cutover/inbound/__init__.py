"""Hand-over of a pack between the Event executor and the WorkItem, and back."""
