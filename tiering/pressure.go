package tiering

import (
	"math"
	"time"
)

// What a Governor calls pressure, and how it answers.
const (
	// stallShare of the time is how long tasks wait for memory under pressure, over
	// stallWindow at least: a shorter wait is soon over.
	stallShare  = 0.1
	stallWindow = time.Second
	// lowShare of the machine's memory, but at least leastMargin, is too little to
	// have left; growing needs twice as much.
	lowShare = 32
	// groupLowShare of the limit of a control group is too little to be left in it:
	// who comes to the limit is killed. Groups are often made for one program, and
	// just as large, so it is no more than that.
	groupLowShare = 32
	// stepShare of what is held is given back, or taken again, at a time.
	stepShare = 8
	// patience is how long there has to be no pressure before more is taken.
	patience = 10 * time.Second
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
		waited = float64(s.Stalled-g.stalled) > stallShare*float64(since)
		g.stalled, g.at = s.Stalled, now
	}
	low := max(s.Total/lowShare, leastMargin)
	missing := max(low-s.Available, s.Limit/groupLowShare-s.Left)
	if missing > 0 || waited || limited {
		g.calm = now
		return min(limit, held) - min(max(held/stepShare, missing), held/2)
	}
	if limit >= most || now.Sub(g.calm) < patience {
		return limit
	}
	more := most/stepShare + 1
	if s.Available < math.MaxInt64 {
		more = min(more, (s.Available-2*low)/2)
	}
	if s.Limit > 0 {
		more = min(more, (s.Left-2*s.Limit/groupLowShare)/2)
	}
	if more <= 0 {
		return limit
	}
	g.calm = now
	return min(most, limit+more)
}
