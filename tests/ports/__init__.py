"""Generated cases for the ports of Go plugins, and the recorded decisions of the originals."""
