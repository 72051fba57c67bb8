package notes

import "sync"

// mostQueries is how many vectors of questions are remembered.
const mostQueries = 64

// queryCache remembers vectors of the last questions: a user asks again after each change of a note, and pages through
// results.
type queryCache struct {
	mu    sync.Mutex
	order []string
	byQ   map[string][]float32
}

func newQueryCache() *queryCache { return &queryCache{byQ: map[string][]float32{}} }

func (c *queryCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order, c.byQ = nil, map[string][]float32{}
}

// get returns the vector of a question, which compute returns if it is not known.
func (c *queryCache) get(question string, compute func() ([]float32, error)) ([]float32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, known := c.byQ[question]; known {
		return v, nil
	}
	v, err := compute()
	if err != nil {
		return nil, err
	}
	if len(c.order) == mostQueries {
		delete(c.byQ, c.order[0])
		c.order = c.order[1:]
	}
	c.order, c.byQ[question] = append(c.order, question), v
	return v, nil
}
