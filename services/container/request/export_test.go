package request

// CalendarDate is for tests.
func CalendarDate(s string) string { return calendarDate(s) }
