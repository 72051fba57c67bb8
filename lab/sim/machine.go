package sim

import (
	"math"
	"sync"
	"time"
)

// machine simulates the time of one chip with its queues and its memory. Times are seconds since
// New.
type machine struct {
	mu       sync.Mutex
	now      float64 // time of the host
	all      float64 // total bandwidth of several devices, in bytes per second
	queue    []*queue
	grain    float64 // shortest sleep
	pollTime float64 // duration of a poll
}

// queue holds the work items of one device in order.
type queue struct {
	own   float64 // bandwidth of the device alone, in bytes per second
	free  float64 // end of the last completed work item
	items []*workItem
}

// workItem is a unit of work of a device.
type workItem struct {
	ready   float64 // earliest start
	compute float64 // seconds of arithmetic
	bytes   float64 // of memory traffic
	left    float64 // remaining fraction of the work
	end     float64
	done    bool
	run     func() // computes the result; nil if the work item only takes time
}

// advance advances the clock to a time and completes the work items that end by then.
func (m *machine) advance(until float64) {
	until = max(until, m.now)
	for {
		m.step(until)
		if m.now >= until {
			return
		}
	}
}

// drain advances the clock until a queue is empty.
func (m *machine) drain(q *queue) {
	for len(q.items) > 0 {
		m.step(math.Inf(1))
	}
}

// step advances the clock to the next start or end of a work item, at most to the time until.
func (m *machine) step(until float64) {
	next, rates := until, m.rates()
	for i, q := range m.queue {
		if len(q.items) == 0 {
			continue
		}
		if begin := m.begin(q); begin > m.now {
			next = min(next, begin)
		} else {
			next = min(next, m.now+q.items[0].left/rates[i])
		}
	}
	passed := next - m.now
	for i, q := range m.queue {
		if len(q.items) > 0 && m.begin(q) <= m.now {
			// The rest of a work item may be too short to change the clock; it then ends now.
			ends := m.now + q.items[0].left/rates[i]
			m.work(q, rates[i]*passed, next, ends <= next)
		}
	}
	m.now = next
}

// begin returns the start of the first work item of a queue.
func (m *machine) begin(q *queue) float64 { return max(q.items[0].ready, q.free) }

// work executes a fraction of the first work item of a queue, and ends the item at a time if it
// is complete.
func (m *machine) work(q *queue, fraction, at float64, complete bool) {
	w := q.items[0]
	if w.left -= fraction; !complete {
		return
	}
	if w.run != nil {
		w.run()
	}
	w.done, w.end, q.free = true, at, at
	q.items = q.items[1:]
}

// rates returns, for each queue, the fraction of its first work item that it executes per second.
func (m *machine) rates() []float64 {
	demand := 0.0 // bytes per second that the active devices request
	active := 0
	for _, q := range m.queue {
		if len(q.items) > 0 && m.begin(q) <= m.now && q.items[0].bytes > 0 {
			demand += min(q.own, q.items[0].bytes/max(q.items[0].compute, 1e-12))
			active++
		}
	}
	rates := make([]float64, len(m.queue))
	for i, q := range m.queue {
		if len(q.items) == 0 {
			continue
		}
		w := q.items[0]
		bandwidth := q.own
		if active > 1 && demand > m.all {
			bandwidth *= m.all / demand
		}
		rates[i] = 1 / max(w.compute, w.bytes/bandwidth, 1e-9)
	}
	return rates
}

// Now returns the time of the host.
func (m *machine) Now() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return seconds(m.now)
}

// Sleep makes the host sleep, at least for the system's shortest sleep.
func (m *machine) Sleep(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(m.now + max(d.Seconds(), m.grain))
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }
