package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
)

// A Puller downloads models by name, for ollama's /api/pull, and knows those that it has downloaded before. Its methods are safe for
// concurrent use.
type Puller interface {
	// Models lists the models that were downloaded before. The server offers them besides those of Options.Models, which win where they
	// have the same name.
	Models() ([]Model, error)
	// Pull downloads a model and returns it. It goes on where an earlier call stopped, and stops when ctx ends. progress is
	// called from one goroutine at a time. An error that wraps llmrun.ErrOptions refuses the name.
	Pull(ctx context.Context, name string, progress func(PullProgress)) (Model, error)
	// Remove deletes a model that was downloaded, by its Model.Name. Nothing uses it.
	Remove(name string) error
}

// PullProgress tells how much of a file is there.
type PullProgress struct {
	File             string // its name
	Digest           string // sha256:…; "" if none is published
	Completed, Total int64  // bytes
}

// pullStatus is a line of the answer to a pull.
type pullStatus struct {
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Completed int64  `json:"completed,omitempty"`
}

// part returns the line for the progress of a file.
func (p *PullProgress) part() pullStatus {
	name := path.Base(p.File)
	if kind, hex, _ := strings.Cut(p.Digest, ":"); kind == "sha256" && len(hex) > 12 {
		name = hex[:12]
	}
	return pullStatus{"pulling " + name, p.Digest, p.Total, p.Completed}
}

// errPulling refuses a download beside another one, because both would take longer.
var errPulling = &problem{status: http.StatusServiceUnavailable, message: "another model is being downloaded; try again when it is here", retryAfter: 30}

// errMayNotPull refuses to change what is on the disk.
var errMayNotPull = &problem{status: http.StatusForbidden, message: "models are downloaded and deleted only for this machine, or for clients with a key: --api-key-file gives the server keys"}

// mayPull reports whether a request may fill the disk: on this machine, or with a key.
func (s *Server) mayPull(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	address, err := netip.ParseAddr(host)
	return len(s.guard.keys) > 0 || err == nil && address.Unmap().IsLoopback()
}

// pull downloads a model for a client, and offers it from then on.
func (s *Server) pull(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if err := s.answerPull(ctx, w, r); err != nil {
		p := s.problemOf(ctx, err)
		record := recordOf(ctx)
		record.status, record.problem = p.status, p.message
		if p.status != statusLeft {
			ollama{}.refuse(w, p)
		}
	}
}

func (s *Server) answerPull(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	var name string
	stream := true
	err := s.readObject(w, r, func(o *object) {
		if name, stream = ollamaName(o), o.boolean("stream", true); name == "" {
			o.fail("model", "is missing")
		}
	})
	switch {
	case err != nil:
		return err
	case s.options.Puller == nil:
		return &problem{status: http.StatusNotImplemented, message: "this server downloads no models"}
	case !s.mayPull(r):
		return errMayNotPull
	case s.models.has(name):
		return s.answerPulled(w, stream)
	}
	select {
	case s.pulling <- struct{}{}:
		defer func() { <-s.pulling }()
	default:
		return errPulling
	}
	t := newStream(w, false)
	show := func(line pullStatus) {
		if stream {
			_ = t.send(line) // if the client has left, the download ends by its context
		}
	}
	show(pullStatus{Status: "pulling manifest"})
	var last pullStatus
	m, err := s.options.Puller.Pull(ctx, name, func(p PullProgress) {
		now := p.part()
		if now.Status == last.Status && now.Digest == last.Digest && now.Completed < now.Total && time.Since(t.last) < progressTime {
			return
		}
		last = now
		show(now)
	})
	if err == nil {
		err = s.models.add(&m, name)
	}
	if err != nil {
		return s.breakOff(ctx, t, err, ollama{}.errorBody)
	}
	show(pullStatus{Status: "verifying sha256 digest"})
	show(pullStatus{Status: "writing manifest"})
	if stream {
		show(pullStatus{Status: pulled})
		return nil
	}
	return s.answerPulled(w, false)
}

// pulled is the status of a model that is here.
const pulled = "success"

// answerPulled answers that a model is here.
func (s *Server) answerPulled(w http.ResponseWriter, stream bool) error {
	if stream {
		_ = newStream(w, false).send(pullStatus{Status: pulled}) // fails if the client has left
		return nil
	}
	writeJSON(w, http.StatusOK, pullStatus{Status: pulled})
	return nil
}

// Reasons why a model is not added, or not deleted.
var (
	errTaken = errors.New("the server has another model of this name")
	errInUse = errors.New("a request uses the model")
)

// delete takes a name back that a client has given a model, or deletes a model that was downloaded.
func (s *Server) delete(r *http.Request, name string) error {
	o, err := s.models.find(name)
	if err != nil {
		return err
	}
	if !o.pulled || s.models.isCopy(o) {
		return s.models.remove(name)
	}
	if !s.mayPull(r) {
		return errMayNotPull
	}
	if err := s.models.forget(o.entry); err != nil {
		return err
	}
	return s.options.Puller.Remove(o.Name)
}

// isCopy reports whether a client has given a model the name by copying it.
func (r *registry) isCopy(o offered) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return o.name != o.Name && !slices.Contains(o.names, o.name)
}

// forget offers a model no more, and closes it.
func (r *registry) forget(e *entry) error {
	r.mu.Lock()
	if e.users > 0 {
		r.mu.Unlock()
		return fmt.Errorf("%w: %q", errInUse, e.Name)
	}
	r.all = slices.DeleteFunc(slices.Clone(r.all), func(other *entry) bool { return other == e })
	r.aliases = slices.DeleteFunc(r.aliases, func(o offered) bool { return o.entry == e })
	var engines []*llmrun.Engine
	if e.engine != nil {
		engines = append(engines, r.unload(e))
	}
	r.mu.Unlock()
	return r.closeEngines(engines...)
}

// add offers a model that was downloaded, also under the name by which it was asked for.
func (r *registry) add(m *Model, asked string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e *entry
	for _, o := range r.offeredLocked() {
		switch {
		case o.hasName(m.Name) && (!o.pulled || o.Path != m.Path):
			return fmt.Errorf("%w: %q", errTaken, m.Name)
		case o.hasName(m.Name):
			e = o.entry
		}
	}
	if e == nil {
		e = newEntry(m)
		e.pulled = true
		r.all = append(r.all, e)
	}
	for _, name := range append(m.Names, asked) {
		if name != "" && !r.hasLocked(name) && len(r.aliases) < maxAliases {
			r.aliases, e.names = append(r.aliases, offered{name: name, entry: e}), append(e.names, name)
		}
	}
	return nil
}

// has reports whether there is a model with a name.
func (r *registry) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hasLocked(name)
}

func (r *registry) hasLocked(name string) bool {
	for _, o := range r.offeredLocked() {
		if o.hasName(name) {
			return true
		}
	}
	return false
}

// offerPulled offers the models that were downloaded before. A name that another model has already is no error then.
func (s *Server) offerPulled() error {
	if s.options.Puller == nil {
		return nil
	}
	models, err := s.options.Puller.Models()
	if err != nil {
		return err
	}
	for i := range models {
		if err := s.models.add(&models[i], ""); err != nil && !errors.Is(err, errTaken) {
			return err
		}
	}
	return nil
}
