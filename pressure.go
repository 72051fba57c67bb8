package llmrun

import (
	"io/fs"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// pressureInterval is how often signs of pressure are looked at. They are some
// small files; and in a second another program takes more than is kept free.
const pressureInterval = 250 * time.Millisecond

// watcher follows the pressure on the system's memory for an engine.
type watcher struct {
	stop, ended chan struct{}
}

// watchPressure begins to watch.
func (e *Engine) watchPressure() {
	ticker := time.NewTicker(pressureInterval)
	e.watch(tiering.SystemRoot(), ticker.C, ticker.Stop)
}

// watch looks at the signs that root shows whenever a time comes in ticks, and
// calls done at its end.
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

// shutdown waits for the watcher's last step.
func (w *watcher) shutdown() {
	if w == nil {
		return
	}
	close(w.stop)
	<-w.ended
}

// respondToPressure holds less memory under pressure, and more again when it has gone. An
// error, such as of a read, is left to the next step or to a generation, which
// meets it as well.
func (e *Engine) respondToPressure(g *tiering.Governor, now time.Time, signs tiering.Signs) {
	m := &e.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.budget.Usage().Total
	if m.targetBudget == m.ownerBudget && m.level == TrimNone {
		m.untrimmed = held
	}
	// Without pressure the engine may hold all of its budget; how much of it that
	// would be is seen when there is no pressure.
	most := smaller(m.ownerBudget, max(m.untrimmed, held))
	limit := smaller(m.targetBudget, most)
	next := g.Step(now, signs, held, limit, most)
	switch {
	case next == limit:
	case next >= most:
		if e.applyBudget(m.ownerBudget, false) == nil {
			m.level = TrimNone
		}
	default:
		_ = e.shrinkTo(next, next < limit)
	}
}
