package tiering

import (
	"math"
	"time"
)

// Thresholds and steps of a Governor.
const (
	// Tasks that wait for memory for more than stallFraction of the time, measured
	// over at least stallWindow, indicate pressure. Shorter waits pass quickly.
	stallFraction = 0.1
	stallWindow   = time.Second
	// Less than one part in lowDivisor of the machine's memory, or less than
	// leastMargin, indicates pressure. Growing requires twice as much.
	lowDivisor = 32
	// Less than one part in groupLowDivisor of the control group's limit indicates
	// pressure: the kernel kills processes at the limit. The fraction is small because
	// a group is often just large enough for its program.
	groupLowDivisor = 32
	// The Governor releases or adds one part in stepDivisor of the memory in use at a
	// time.
	stepDivisor = 8
	// calmTime is the time without pressure before the limit grows.
	calmTime = 10 * time.Second
)

// Governor adjusts a memory limit to the pressure on the machine: it lowers the limit
// while there is pressure and raises it slowly afterwards. The caller supplies the
// time.
type Governor struct {
	limited int64         // Signs.Limited at the last step
	stalled time.Duration // Signs.Stalled at time at
	at      time.Time     // start of the stall window
	calm    time.Time     // time of the last pressure or growth
}

// Step evaluates new signs and returns the new limit. limit is the current limit,
// held is the memory in use under it, and most is the limit without pressure.
func (g *Governor) Step(now time.Time, s Signs, held, limit, most int64) int64 {
	if g.at.IsZero() {
		g.limited, g.stalled, g.at, g.calm = s.Limited, s.Stalled, now, now
		return limit
	}
	limited, waited := s.Limited > g.limited, false
	g.limited = s.Limited
	if since := now.Sub(g.at); since >= stallWindow {
		waited = float64(s.Stalled-g.stalled) > stallFraction*float64(since)
		g.stalled, g.at = s.Stalled, now
	}
	low := max(s.Total/lowDivisor, leastMargin)
	missing := max(low-s.Available, s.Limit/groupLowDivisor-s.Left)
	if missing > 0 || waited || limited {
		g.calm = now
		return min(limit, held) - min(max(held/stepDivisor, missing), held/2)
	}
	if limit >= most || now.Sub(g.calm) < calmTime {
		return limit
	}
	more := most/stepDivisor + 1
	if s.Available < math.MaxInt64 {
		more = min(more, (s.Available-2*low)/2)
	}
	if s.Limit > 0 {
		more = min(more, (s.Left-2*s.Limit/groupLowDivisor)/2)
	}
	if more <= 0 {
		return limit
	}
	g.calm = now
	return min(most, limit+more)
}
