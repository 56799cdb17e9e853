"""A web page to try a served model on, and the small server that brings it to a browser."""
