package exec

import "github.com/llmrun/llmrun/internal/threadpool"

// SetThreads changes the number of compute threads; 0 means the fast cores. Results do not
// depend on it. It waits for the running pass, and no Extend may begin before it returns. On an
// error the model is unchanged. A model with offloaded rows or layers keeps its threads.
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

// replaceThreads starts a pool of n threads and allocates a pass for it, then frees the old
// ones.
func replaceThreads(m *Model, n int) error {
	oldWorkers, oldPass := m.workers, m.pass
	m.workers = threadpool.New(n)
	pass, err := newPass(m, oldPass.chunk)
	if err != nil {
		m.workers.Close()
		m.workers = oldWorkers
		return err
	}
	setPass(m, pass)
	oldWorkers.Close()
	oldPass.free()
	return nil
}
