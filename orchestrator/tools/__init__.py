"""Looking at files and changing them: inspect, convert, one operator element by element, doctor."""
