package devices

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/llmrun/llmrun/hetero"
)

// Errors of Open.
var (
	ErrNotBuilt = errors.New("not in this build")
	ErrUnknown  = errors.New("unknown device")
	ErrConflict = errors.New("driver conflicts with one that is already loaded")
	ErrSlow     = errors.New("only the engine's own CPU devices can be slowed down")
	ErrMemory   = errors.New("the device uses the machine's memory, which --ram limits")
)

// Registry holds the providers of a program. Any goroutine may call its methods.
type Registry struct {
	providers []*Provider

	mu     sync.Mutex
	loaded map[string]string // by conflict: the provider that was loaded first
	lists  map[string]Listing
}

// New returns a registry of providers.
func New(providers ...*Provider) *Registry {
	return &Registry{providers: providers, loaded: map[string]string{}, lists: map[string]Listing{}}
}

// Listing is the result of querying a provider.
type Listing struct {
	Provider string
	Kind     hetero.Kind
	Found    []Found
	Missing  error // why devices are missing; nil: none are
}

// List queries all providers. Of several providers with the same conflict it queries
// the provider that is already loaded, or else loads the first one that has devices.
func (r *Registry) List() []Listing {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Listing, len(r.providers))
	for i, p := range r.providers {
		list[i] = r.query(p)
	}
	return list
}

// query queries a provider once and caches the result.
func (r *Registry) query(p *Provider) Listing {
	if l, known := r.lists[p.Name]; known {
		return l
	}
	l := Listing{Provider: p.Name, Kind: p.Kind}
	if p.Find == nil {
		l.Missing = fmt.Errorf("%w: build with -tags %s", ErrNotBuilt, p.Tag)
		return l
	}
	if first := r.loaded[p.Conflict]; p.Conflict != "" && first != "" {
		l.Missing = fmt.Errorf("%w: %s and %s cannot share a process (%s); name its device alone", ErrConflict, p.Name, first, p.Conflict)
		return l
	}
	l.Found, l.Missing = p.Find()
	if len(l.Found) > 0 && p.Conflict != "" {
		r.loaded[p.Conflict] = p.Name
	}
	r.lists[p.Name] = l
	return l
}

// First returns the name of the first device of a kind. If no device has that kind,
// it returns one of a driver of that kind, such as a GPU driver's CPU device. It
// does not load drivers of other kinds.
func (r *Registry) First(kind hetero.Kind) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing error
	name := ""
	for _, p := range r.providers {
		if p.Kind != kind {
			continue
		}
		l := r.query(p)
		missing = errors.Join(missing, l.Missing)
		for _, f := range l.Found {
			if f.Capabilities.Kind == kind {
				return f.Name, nil
			}
			name = cmp.Or(name, f.Name)
		}
	}
	if name == "" {
		return "", fmt.Errorf("device %v: %w", kind, missing)
	}
	return name, nil
}

// kinds maps the names that stand for the first device of a kind.
var kinds = map[string]hetero.Kind{"gpu": hetero.GPU, "npu": hetero.NPU}

// Resolve returns the name of a device: "gpu" and "npu" become the first device of
// their kind, other names stay.
func (r *Registry) Resolve(name string) (string, error) {
	if kind, ok := kinds[name]; ok {
		return r.First(kind)
	}
	return name, nil
}

// Open opens a device by name. A suffix such as /4 slows it down by that factor,
// which only the engine's own CPU devices support. Open queries the provider that
// the name begins with first, so that it does not load drivers without need.
func (r *Registry) Open(name string, o Options) (hetero.Device, error) {
	base, o, err := withSlow(name, o)
	if err != nil {
		return nil, err
	}
	found, err := r.find(base)
	if err != nil {
		return nil, err
	}
	if o.Slow > 1 && !found.CanSlow {
		return nil, fmt.Errorf("device %q: %w", name, ErrSlow)
	}
	if o.Memory > 0 && found.CanSlow {
		return nil, fmt.Errorf("device %q: %w", name, ErrMemory)
	}
	device, err := found.Open(o)
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	return device, nil
}

// withSlow parses the suffix of a name.
func withSlow(name string, o Options) (string, Options, error) {
	base, times, slower := strings.Cut(name, "/")
	if !slower {
		return name, o, nil
	}
	n, err := strconv.Atoi(times)
	if err != nil || n < 1 || n > maxSlow {
		return "", o, fmt.Errorf("%w %q: the factor after / must be 1 to %d", ErrUnknown, name, maxSlow)
	}
	o.Slow = n
	return base, o, nil
}

// maxSlow exceeds the ratio between a large and a small core.
const maxSlow = 64

// Loads reports whether opening a device by name may load a driver: whether the program was built with
// one of its kind or, for other names than kinds, with any. It loads none.
func (r *Registry) Loads(name string) bool {
	kind, isKind := kinds[name]
	return slices.ContainsFunc(r.providers, func(p *Provider) bool {
		return p.Tag != "" && p.Find != nil && (!isKind || p.Kind == kind)
	})
}

// find returns the device with a name.
func (r *Registry) find(name string) (Found, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	var missing error
	for _, own := range []bool{true, false} { // the named provider first, then the others
		for _, p := range r.providers {
			if named(p, name) != own {
				continue
			}
			l := r.query(p)
			for _, f := range l.Found {
				if f.Name == name {
					return f, nil
				}
				names = append(names, f.Name)
			}
			if own && l.Missing != nil {
				missing = fmt.Errorf("device %q: %w", name, l.Missing)
			}
		}
		if missing != nil {
			return Found{}, missing
		}
	}
	return Found{}, fmt.Errorf("%w %q; available: %s", ErrUnknown, name, strings.Join(names, ", "))
}

// named reports whether a device's name begins with its provider's name.
func named(p *Provider, device string) bool {
	rest, ok := strings.CutPrefix(device, p.Name)
	return ok && (rest == "" || strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, ":"))
}
