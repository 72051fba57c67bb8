package tiering

import (
	"math"
	"time"
)

// What a Governor calls pressure, and how it answers.
const (
	// stallFraction of the time is how long tasks wait for memory under pressure, over
	// stallWindow at least: a shorter wait is soon over.
	stallFraction = 0.1
	stallWindow   = time.Second
	// lowDivisor of the machine's memory, but at least leastMargin, is too little to
	// have left; growing needs twice as much.
	lowDivisor = 32
	// groupLowDivisor of the limit of a control group is too little to be left in it:
	// who comes to the limit is killed. Groups are often made for one program, and
	// just as large, so it is no more than that.
	groupLowDivisor = 32
	// stepDivisor of what is held is given back, or taken again, at a time.
	stepDivisor = 8
	// calmTime is how long there has to be no pressure before more is taken.
	calmTime = 10 * time.Second
)

// Governor decides, from signs that are read again and again, how much memory to
// hold: less and less while there is pressure, and slowly more when it has gone. It
// knows no clock but the times that it is told.
type Governor struct {
	limited int64         // the signs' Limited, when last looked at
	stalled time.Duration // the signs' Stalled
	at      time.Time     // when stalled was looked at
	calm    time.Time     // since when there was no pressure, and nothing was taken
}

// Step takes new signs and returns the limit from now on. limit is the one until
// now; held is what is held under it, and most what would be held without
// pressure.
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
