"""What each tab of the page shows: functions from a board and a state to HTML, without gradio."""
