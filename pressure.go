package llmrun

import (
	"context"
	"io/fs"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// pressureInterval is the interval of pressure checks, each of which reads some small files.
// In a full second, another program could allocate more than the margin.
const pressureInterval = 250 * time.Millisecond

// watcher responds to memory pressure for an engine.
type watcher struct {
	stop, ended chan struct{}
}

// watchPressure starts the watcher.
func (e *Engine) watchPressure() {
	ticker := time.NewTicker(pressureInterval)
	e.watch(tiering.SystemRoot(), ticker.C, ticker.Stop)
}

// watch starts a goroutine that reads the pressure signs below root at each tick. It calls
// done when it ends.
func (e *Engine) watch(root fs.FS, ticks <-chan time.Time, done func()) {
	w := &watcher{stop: make(chan struct{}), ended: make(chan struct{})}
	e.watcher = w
	go func() {
		defer close(w.ended)
		defer done()
		var g tiering.Governor
		for {
			select {
			case <-w.stop:
				return
			case now := <-ticks:
				e.respondToPressure(&g, now, tiering.ReadSigns(root))
			}
		}
	}()
}

// shutdown stops the watcher and waits for its goroutine.
func (w *watcher) shutdown() {
	if w == nil {
		return
	}
	close(w.stop)
	<-w.ended
}

// respondToPressure releases memory under pressure, and takes it back when the pressure has
// ended. It ignores errors, because the next step or a generation meets them as well.
func (e *Engine) respondToPressure(g *tiering.Governor, now time.Time, signs tiering.Signs) {
	m := &e.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.budget.Usage().Total
	if m.targetBudget == m.ownerBudget && m.level == TrimNone {
		m.untrimmed = held
	}
	// Without pressure, the engine may use its whole budget. How much of it the engine would
	// use is only known then.
	most := smaller(m.ownerBudget, max(m.untrimmed, held))
	limit := smaller(m.targetBudget, most)
	next := g.Step(now, signs, held, limit, most)
	switch {
	case next == limit:
	case next >= most:
		if e.applyBudget(m.ownerBudget) == nil {
			m.level = TrimNone
		}
	default:
		_ = e.shrinkTo(context.Background(), next, next < limit)
	}
}
