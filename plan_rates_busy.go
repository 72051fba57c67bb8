package llmrun

import (
	"cmp"
	"runtime"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// Measurements of a loaded machine are too low. The kernel tells how much processor time the measuring
// threads got, which they want all the time. A measurement that got too little is made again at later
// starts, until one gets enough, or a few are made: then the best of them stays.

const (
	// mostLost is the part of the processor time that others may take from a measurement that stays. Of
	// 9 measurements on 2 processors with nothing else to do, at most 0.16 was missing, and 0.92 of 4
	// with a load of 26 (AMD EPYC, 2026-11-26).
	mostLost = 0.2
	// mostStarts is how many starts measure at most.
	mostStarts = 5
	// retryRates is the least time between two measurements: the load may have passed.
	retryRates = 10 * time.Minute
)

// Disturbed reports whether other programs used the processors during the measurement.
func (r *Rates) Disturbed() bool { return r.Lost > mostLost }

// mayRetry reports whether a stored measurement is made again.
func (m *rateMeasurer) mayRetry(r *Rates) bool {
	return m.retry > 0 && r.Disturbed() && r.Starts < mostStarts && time.Since(r.Measured) >= m.retry
}

// watchLoad returns a function that returns the part of the processor time since now that others took
// from the measuring threads; 0 where the system does not tell.
func (m *rateMeasurer) watchLoad() func() float64 {
	ran := m.processorTime()
	before, began := ran(), time.Now()
	return func() float64 {
		after, wanted := ran(), time.Since(began)*time.Duration(min(m.threads, runtime.NumCPU()))
		if after == 0 || wanted <= 0 {
			return 0
		}
		return max(0, 1-float64(after-before)/float64(wanted))
	}
}

// processorTime returns a function that returns for how long threads of the process have run.
func (m *rateMeasurer) processorTime() func() time.Duration {
	if m.ran != nil {
		return m.ran
	}
	return tiering.ProcessorTime
}

// best returns what to store of a measurement in place of an older one: the new one if it was not
// disturbed, and otherwise the best of both.
func (r Rates) best(old Rates) Rates {
	r.Starts = max(1, old.Starts) + 1
	if !r.Disturbed() {
		return r
	}
	r.StreamCoreGBs = max(r.StreamCoreGBs, old.StreamCoreGBs)
	r.FlashGBs, r.DecodeGBs, r.PrefillGops = max(r.FlashGBs, old.FlashGBs), max(r.DecodeGBs, old.DecodeGBs), max(r.PrefillGops, old.PrefillGops)
	r.AttendGBs, r.AttendChunkGBs = max(r.AttendGBs, old.AttendGBs), max(r.AttendChunkGBs, old.AttendChunkGBs)
	r.ConvertGBs, r.RoundSeconds = max(r.ConvertGBs, old.ConvertGBs), min(r.RoundSeconds, old.RoundSeconds)
	r.Lost = min(r.Lost, old.Lost)
	return r
}

// store stores a measurement under a key, and returns it together with what it replaces.
func (m *rateMeasurer) store(known map[string]Rates, key string, r Rates) (Rates, error) {
	if old, replaces := known[key]; replaces && old.Disturbed() && !m.remeasure {
		r = r.best(old)
	}
	r.Starts = cmp.Or(r.Starts, 1)
	known[key] = r
	return r, m.save(known)
}
