"""The tabs of the page: functions from a board and a state to HTML, without gradio."""
