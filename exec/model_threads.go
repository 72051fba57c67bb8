package exec

import "github.com/llmrun/llmrun/internal/threadpool"

// SetThreads changes how many threads share the arithmetic; 0 means the fast
// cores. Results do not depend on it. It waits for a pass that is under way,
// and no Extend may begin before it returns. On an error nothing has changed. A
// model that a device has a part in keeps its threads.
func (m *Model) SetThreads(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if n <= 0 {
		n = threadpool.DefaultThreads()
	}
	if n == m.workers.Count() || m.offloadedLayers != nil || m.offload != nil {
		return nil
	}
	return replaceThreads(m, n)
}

// replaceThreads makes n threads and a pass with working memory for each.
func replaceThreads(m *Model, n int) error {
	oldWorkers, oldPass := m.workers, m.pass
	m.workers = threadpool.New(n)
	pass, err := newPass(m, oldPass.chunk)
	if err != nil {
		m.workers.Close()
		m.workers = oldWorkers
		return err
	}
	m.pass = pass
	oldWorkers.Close()
	oldPass.free()
	return nil
}
