package sim

import (
	"math"
	"sync"
	"time"
)

// machine is the virtual time of one chip: its queues and its memory.
// Times are seconds since the machine was made.
type machine struct {
	mu       sync.Mutex
	now      float64 // of the host
	all      float64 // bytes a second that several devices reach together
	queue    []*queue
	grain    float64 // shortest sleep
	pollTime float64 // what a look at a flag takes
}

// queue is what one device has to do, in order.
type queue struct {
	own  float64 // bytes a second that the device reaches alone
	free float64 // when it was done with the job before the first one left
	jobs []*job
}

// job is work of a device.
type job struct {
	ready   float64 // it does not begin before
	compute float64 // seconds of arithmetic
	bytes   float64 // through memory
	left    float64 // share of it that is not done, 1 at the beginning
	end     float64
	done    bool
	run     func() // computes the result; nil for time alone
}

// advance lets time pass until a moment, and completes what is complete by then.
func (m *machine) advance(until float64) {
	until = max(until, m.now)
	for {
		m.step(until)
		if m.now >= until {
			return
		}
	}
}

// drain lets time pass until a queue is empty.
func (m *machine) drain(q *queue) {
	for len(q.jobs) > 0 {
		m.step(math.Inf(1))
	}
}

// step lets time pass until work begins or ends somewhere, but not beyond a moment.
func (m *machine) step(until float64) {
	next, rates := until, m.rates()
	for i, q := range m.queue {
		if len(q.jobs) == 0 {
			continue
		}
		if begin := m.begin(q); begin > m.now {
			next = min(next, begin)
		} else {
			next = min(next, m.now+q.jobs[0].left/rates[i])
		}
	}
	passed := next - m.now
	for i, q := range m.queue {
		if len(q.jobs) > 0 && m.begin(q) <= m.now {
			// A remainder too small to move the clock is no remainder.
			ends := m.now + q.jobs[0].left/rates[i]
			m.work(q, rates[i]*passed, next, ends <= next)
		}
	}
	m.now = next
}

// begin returns when the first job of a queue begins.
func (m *machine) begin(q *queue) float64 { return max(q.jobs[0].ready, q.free) }

// work does a share of the first job of a queue, by a moment.
func (m *machine) work(q *queue, share, at float64, complete bool) {
	j := q.jobs[0]
	if j.left -= share; !complete {
		return
	}
	if j.run != nil {
		j.run()
	}
	j.done, j.end, q.free = true, at, at
	q.jobs = q.jobs[1:]
}

// rates returns for each queue which share of its present job it does a second.
func (m *machine) rates() []float64 {
	demand := 0.0 // of the devices that are at work with memory
	active := 0
	for _, q := range m.queue {
		if len(q.jobs) > 0 && m.begin(q) <= m.now && q.jobs[0].bytes > 0 {
			demand += min(q.own, q.jobs[0].bytes/max(q.jobs[0].compute, 1e-12))
			active++
		}
	}
	rates := make([]float64, len(m.queue))
	for i, q := range m.queue {
		if len(q.jobs) == 0 {
			continue
		}
		j := q.jobs[0]
		bandwidth := q.own
		if active > 1 && demand > m.all {
			bandwidth *= m.all / demand
		}
		rates[i] = 1 / max(j.compute, j.bytes/bandwidth, 1e-9)
	}
	return rates
}

// Now returns the host's time.
func (m *machine) Now() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return seconds(m.now)
}

// Sleep lets the host sleep, at least the shortest time that the system can.
func (m *machine) Sleep(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(m.now + max(d.Seconds(), m.grain))
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }
