"""What the text of a note holds, and how it is changed: pure, and imported by the processes that only parse."""
