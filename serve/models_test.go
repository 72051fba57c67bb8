package serve

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// events lists what a registry opened and closed.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) add(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, text)
}

// take returns the events since the last call.
func (e *events) take() (list []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list, e.list = e.list, nil
	return list
}

// fakeRegistry returns a registry of models that open at once.
func fakeRegistry(ram int64, names ...string) (r *registry, all *events) {
	o := Options{RAM: ram, KeepAlive: time.Minute}
	for _, name := range names {
		o.Models = append(o.Models, Model{Name: name})
	}
	r = newRegistry(&o)
	all = &events{}
	opened := map[*llmrun.Engine]string{}
	r.open = func(_ context.Context, m *Model) (*llmrun.Engine, error) {
		e := new(llmrun.Engine)
		opened[e] = m.Name
		all.add("open " + m.Name)
		return e, nil
	}
	r.totals = func(*llmrun.Engine) engineTotals { return engineTotals{passes: 1} }
	r.close = func(e *llmrun.Engine) error {
		all.add("close " + opened[e])
		return nil
	}
	return r, all
}

func (r *registry) mustUse(t *testing.T, name string) *entry {
	t.Helper()
	o, err := r.find(name)
	require.NoError(t, err)
	_, err = r.use(t.Context(), o.entry)
	require.NoError(t, err)
	return o.entry
}

// TestModelsAreKeptForAWhile checks that a model is closed when nothing has used it for as long as the server or its
// last request says.
func TestModelsAreKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, events := fakeRegistry(1, "a")
		a := r.mustUse(t, "a")
		time.Sleep(time.Hour)
		require.Equal(t, []string{"open a"}, events.take(), "it is in use")
		r.release(a)
		time.Sleep(59 * time.Second)
		r.release(r.mustUse(t, "a:latest"))
		time.Sleep(59 * time.Second)
		require.Empty(t, events.take(), "the second use began another minute")
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"close a"}, events.take())

		a = r.mustUse(t, "a")
		r.setKeepAlive(a, 0)
		r.release(a)
		require.Equal(t, []string{"open a", "close a"}, events.take())

		a = r.mustUse(t, "a")
		r.setKeepAlive(a, -1)
		r.release(a)
		time.Sleep(1000 * time.Hour)
		require.Equal(t, []string{"open a"}, events.take())
		require.NoError(t, r.shutdown())
		require.Equal(t, []string{"close a"}, events.take())
		_, err := r.use(t.Context(), a)
		require.ErrorIs(t, err, errClosed)
	})
}

// TestOneModelAtATime checks that with a budget a model is opened when the other one is idle, and that requests for
// the open model do not overtake one that waits for another.
func TestOneModelAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, events := fakeRegistry(1, "a", "b")
		a := r.mustUse(t, "a")
		r.mustUse(t, "a")
		done := make(chan string, 2)
		go func() { r.release(r.mustUse(t, "b")); done <- "b" }()
		synctest.Wait()
		go func() { r.release(r.mustUse(t, "a")); done <- "a" }()
		synctest.Wait()
		r.release(a)
		synctest.Wait()
		require.Equal(t, []string{"open a"}, events.take(), "one request still uses it")
		r.release(a)
		require.Equal(t, "b", <-done)
		require.Equal(t, "a", <-done)
		require.Equal(t, []string{"close a", "open b", "close b", "open a"}, events.take())
		require.NoError(t, r.shutdown())
	})
}

// TestWaitingForAModelEnds checks that a request whose client leaves while it waits for a model lets others go on.
func TestWaitingForAModelEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakeRegistry(1, "a", "b")
		a := r.mustUse(t, "a")
		b, err := r.find("b")
		require.NoError(t, err)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		_, err = r.use(ctx, b.entry)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		r.release(r.mustUse(t, "a"))
		r.release(a)
		require.NoError(t, r.shutdown())
	})
}

// TestWaitingForMemory checks that a request without memory waits for another one of its model to end, and that the last
// one does not wait for others that wait themselves.
func TestWaitingForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakeRegistry(1, "a")
		a := r.mustUse(t, "a")
		room := func() *kvRoom { return &kvRoom{models: r, model: a} }
		require.False(t, room().make(t.Context()), "it is alone")
		r.mustUse(t, "a")
		r.mustUse(t, "a")
		again := make(chan bool, 2)
		for range 2 {
			go func() { again <- room().make(t.Context()) }()
		}
		synctest.Wait()
		require.Empty(t, again)
		last := room()
		require.True(t, last.make(t.Context()), "the others wait, and hold nothing")
		require.False(t, last.make(t.Context()), "nothing has changed")
		r.release(a)
		require.True(t, <-again)
		require.True(t, <-again)
		ctx, leave := context.WithCancel(t.Context())
		go func() { again <- room().make(ctx) }()
		synctest.Wait()
		leave()
		require.False(t, <-again, "its client has left")
		r.release(a)

		// Of one request, a generation waits for the end of another one.
		u := &use{offered: offered{entry: a}}
		first, second := r.begin(u), r.begin(u)
		go func() { again <- room().make(t.Context()) }()
		synctest.Wait()
		require.Empty(t, again)
		first()
		require.True(t, <-again)
		require.False(t, room().make(t.Context()), "it is alone")
		second()
		r.release(a)
		require.Zero(t, a.starved+a.further)
		require.NoError(t, r.shutdown())
	})
}

// TestOldestModelMakesRoom checks that without a budget the models that were used longest ago are closed until the next one fits.
func TestOldestModelMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, events := fakeRegistry(0, "a", "b", "c")
		for _, e := range r.all {
			e.describe = func() (description, error) { return description{}, nil }
		}
		for _, name := range []string{"a", "b"} {
			r.release(r.mustUse(t, name))
			time.Sleep(time.Second)
		}
		r.release(r.mustUse(t, "a"))
		open := r.open
		refusals := 1
		r.open = func(ctx context.Context, m *Model) (*llmrun.Engine, error) {
			if refusals > 0 {
				refusals--
				return nil, llmrun.ErrBudget
			}
			return open(ctx, m)
		}
		r.release(r.mustUse(t, "c"))
		require.Equal(t, []string{"open a", "open b", "close b", "open c"}, events.take())
		refusals = 5
		b, err := r.find("b")
		require.NoError(t, err)
		_, err = r.use(t.Context(), b.entry)
		require.ErrorIs(t, err, llmrun.ErrBudget)
		require.Equal(t, []string{"close a", "close c"}, events.take(), "all that is idle made room, in vain")
	})
}

// TestClosingAModelHoldsNobodyUp checks that while an engine is closed, which can take long, models are listed and its counters are
// there, but that none is opened, because its memory is not free yet, and that the end of the server waits for it.
func TestClosingAModelHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, events := fakeRegistry(1, "a", "b")
		closing, end := r.close, make(chan struct{})
		r.close = func(e *llmrun.Engine) error { <-end; return closing(e) }
		a := r.mustUse(t, "a")
		r.setKeepAlive(a, 0)
		go r.release(a)
		synctest.Wait()
		open, retired := r.loaded()
		require.Empty(t, open)
		require.Equal(t, engineTotals{passes: 1}, retired)
		go func() { r.release(r.mustUse(t, "b")) }()
		synctest.Wait()
		require.Equal(t, []string{"open a"}, events.take())
		end <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"close a", "open b"}, events.take())
		time.Sleep(time.Hour) // b expires
		over := make(chan error)
		go func() { over <- r.shutdown() }()
		synctest.Wait()
		require.Empty(t, over)
		end <- struct{}{}
		require.NoError(t, <-over)
		require.Equal(t, []string{"close b"}, events.take())
	})
}

// TestListingsRenderNothing checks that models are listed while one finds out what its chat template can do, which can take as long as a
// template may.
func TestListingsRenderNothing(t *testing.T) {
	s := newDemo(nil)
	defer s.Close()
	capable := &s.models.all[0].capable
	capable.mu.Lock()
	defer capable.mu.Unlock()
	for _, path := range []string{"/api/tags", "/api/ps", "/v1/models", "/v1/models/demo"} {
		require.Equal(t, http.StatusOK, ask(s, http.MethodGet, path, nil).Code)
	}
}

// TestModelNames checks which names find a model, and that paths are refused.
func TestModelNames(t *testing.T) {
	r, _ := fakeRegistry(0, "a", "b:7b", "org/c")
	for name, want := range map[string]string{"a": "a", "a:latest": "a", "b:7b": "b:7b", "org/c": "org/c"} {
		e, err := r.find(name)
		require.NoError(t, err)
		require.Equal(t, want, e.Name)
	}
	for _, name := range []string{"../../x", "/etc/passwd", `c:\x`, ""} {
		_, err := r.find(name)
		var field *fieldError
		require.ErrorAs(t, err, &field, name)
		require.Equal(t, "model", field.field)
	}
	_, err := r.find("b")
	require.ErrorIs(t, err, errUnknownModel)
	only, _ := fakeRegistry(0, "a")
	e, err := only.find("")
	require.NoError(t, err)
	require.Equal(t, "a", e.Name)
}
