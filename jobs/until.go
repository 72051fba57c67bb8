package jobs

import (
	"context"
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

// EndAt returns a context that ends at a time with a cause, and a check for the work between two steps, which returns the
// cause then. Timers stand still while a machine is suspended, so the context alone would end too late; the check asks
// the clock, which is time.Now.
func EndAt(ctx context.Context, end time.Time, now func() time.Time, cause error) (limited context.Context, check func(context.Context) error, cancel func()) {
	deadline, stop := context.WithDeadlineCause(ctx, end, cause)
	limited, fail := context.WithCancelCause(deadline)
	check = func(context.Context) error {
		if now().Before(end) {
			return nil
		}
		fail(cause)
		return cause
	}
	return limited, check, func() { fail(nil); stop() }
}
