package jobs

import (
	"fmt"
	"time"
)

// Until returns the next moment after now at which a clock shows a time of the day, such as 07:00.
func Until(clock string, now time.Time) (time.Time, error) {
	at, err := time.Parse("15:04", clock)
	if err != nil {
		return time.Time{}, fmt.Errorf("must be a time of the day such as 07:00, not %q", clock)
	}
	year, month, day := now.Date()
	end := time.Date(year, month, day, at.Hour(), at.Minute(), 0, 0, now.Location())
	if !end.After(now) {
		end = time.Date(year, month, day+1, at.Hour(), at.Minute(), 0, 0, now.Location())
	}
	return end, nil
}
