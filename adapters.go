package llmrun

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/store/vfs"
)

// namedAdapter matches NAME=PATH, an adapter that sessions choose by its name.
var namedAdapter = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)$`)

// splitAdapter returns the name of an element of Options.Adapters, "" without one, and its path, behind which
// the scale may follow.
func splitAdapter(adapter string) (name, path string) {
	if m := namedAdapter.FindStringSubmatch(adapter); m != nil {
		return m[1], m[2]
	}
	return "", adapter
}

// AdapterName returns the name of an element of Options.Adapters by which sessions choose it, "" if all sessions use it.
func AdapterName(adapter string) string {
	name, _ := splitAdapter(adapter)
	return name
}

// AdapterPath returns the path of an element of Options.Adapters, or ErrOptions if its scale is not finite.
func AdapterPath(adapter string) (string, error) {
	_, path := splitAdapter(adapter)
	path, _, err := modelfile.SplitAdapterScale(path)
	if err != nil {
		err = fmt.Errorf("%w: Adapters: %w", ErrOptions, err)
	}
	return path, err
}

// checkAdapters refuses adapters whose scales are not finite.
func checkAdapters(adapters []string) error {
	for _, adapter := range adapters {
		if _, err := AdapterPath(adapter); err != nil {
			return err
		}
	}
	return nil
}

// refuseNamed refuses adapters with names where no session could choose them.
func refuseNamed(adapters []string) error {
	for _, adapter := range adapters {
		if name, path := splitAdapter(adapter); name != "" {
			return fmt.Errorf("%w: Adapters: %s: sessions choose adapters by their names, and here are none: give %s", ErrOptions, adapter, path)
		}
	}
	return nil
}

// validateAdapters returns an ErrOptions for adapters that contradict each other.
func (o *Options) validateAdapters() error {
	if err := checkAdapters(o.Adapters); err != nil {
		return err
	}
	if o.AdaptersBeside && len(o.everyAdapters()) == 0 {
		return fmt.Errorf("%w: AdaptersBeside needs Adapters without names", ErrOptions)
	}
	names := o.AdapterNames()
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("%w: Adapters: two have the name %s", ErrOptions, name)
		}
	}
	if _, err := parseAdapters(names, o.SessionAdapters); err != nil {
		return fmt.Errorf("%w: SessionAdapters: %w", ErrOptions, err)
	}
	return nil
}

// everyAdapters returns the adapters without names, which all sessions use.
func (o *Options) everyAdapters() (paths []string) {
	for _, adapter := range o.Adapters {
		if name, path := splitAdapter(adapter); name == "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// AdapterNames returns the names of the adapters that sessions choose.
func (o *Options) AdapterNames() (names []string) {
	for _, adapter := range o.Adapters {
		if name := AdapterName(adapter); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// adapterFS returns the file system of an adapter: that of the model, or the system's if only that has it.
func (o *Options) adapterFS(path string) vfs.FS {
	if o.FS == nil {
		return o.fsys()
	}
	if _, err := o.fsys().Stat(path); err == nil {
		return o.fsys()
	}
	system := *o
	system.FS = nil
	return system.fsys()
}

// merges reports whether adapters change the weights.
func (o *Options) merges() bool { return !o.AdaptersBeside && len(o.everyAdapters()) > 0 }

// keepsBeside reports whether adapters stay beside the weights.
func (o *Options) keepsBeside() bool { return o.AdaptersBeside || len(o.AdapterNames()) > 0 }

// addAdapters adds the adapters to the weights, or keeps them beside, unless they are there.
func (o *Options) addAdapters(f *modelfile.Files) error {
	if f.HasBeside() {
		return nil
	}
	add := f.Merge
	if o.AdaptersBeside {
		add = f.KeepBeside
	}
	for _, path := range o.everyAdapters() {
		if err := add(o.adapterFS(path), path); err != nil {
			return err
		}
	}
	for _, adapter := range o.Adapters {
		if name, path := splitAdapter(adapter); name != "" {
			if err := f.KeepNamed(o.adapterFS(path), name, path); err != nil {
				return fmt.Errorf("adapter %s: %w", name, err)
			}
		}
	}
	return nil
}

// adapterIdentities returns the identities of the adapters with names.
func (o *Options) adapterIdentities(ctx context.Context) (map[string][sha256.Size]byte, error) {
	ids := map[string][sha256.Size]byte{}
	for _, adapter := range o.Adapters {
		name, path := splitAdapter(adapter)
		if name == "" {
			continue
		}
		id, err := modelfile.AdapterIdentity(ctx, o.hashes(), o.adapterFS(path), path)
		if err != nil {
			return nil, err
		}
		ids[name] = id
	}
	return ids, nil
}

// parseAdapters parses NAME or NAME:WEIGHT. The result has the order of names, and no adapters of weight 0.
func parseAdapters(names, list []string) (adapters []exec.AdapterWeight, err error) {
	weights := map[string]float32{}
	for _, text := range list {
		name, scale, scaled := strings.Cut(text, ":")
		weight := 1.0
		if scaled {
			weight, err = strconv.ParseFloat(scale, 32)
		}
		switch {
		case err != nil || math.IsNaN(weight) || math.IsInf(weight, 0):
			return nil, fmt.Errorf("%w: adapter %s: the weight behind the colon is not a finite number", ErrOptions, text)
		case !slices.Contains(names, name):
			return nil, unknownAdapter(names, name)
		}
		weights[name] += float32(weight)
	}
	for _, name := range names {
		w := weights[name]
		if math.IsInf(float64(w), 0) {
			return nil, fmt.Errorf("%w: adapter %s: the sum of its weights is not a finite number", ErrOptions, name)
		}
		if w != 0 {
			adapters = append(adapters, exec.AdapterWeight{Name: name, Weight: w})
		}
	}
	return adapters, nil
}

// unknownAdapter returns the error for a name that no adapter has.
func unknownAdapter(names []string, name string) error {
	has := "none has a name"
	if len(names) > 0 {
		has = "there are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("%w: %s; %s", ErrNoAdapter, name, has)
}

// formatAdapters is the reverse of parseAdapters.
func formatAdapters(adapters []exec.AdapterWeight) (list []string) {
	for _, a := range adapters {
		text := a.Name
		if a.Weight != 1 {
			text += ":" + strconv.FormatFloat(float64(a.Weight), 'g', -1, 32)
		}
		list = append(list, text)
	}
	return list
}

// Adapters returns the names of the adapters that sessions can choose; see Options.Adapters.
func (e *Engine) Adapters() []string { return slices.Clone(e.adapters) }

// Adapters returns the adapters that the session uses, as UseAdapters takes them.
func (s *Session) Adapters() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return formatAdapters(s.adapters)
}

// UseAdapters chooses the adapters of the session among those of Options.Adapters that have names, instead of
// the ones that it used before: "style", or "style:0.5" for half of its changes. Several add up. No weights
// are loaded. The session keeps its tokens and messages; the next generation re-prefills them, because their
// keys and values are others with other adapters. During a generation it returns ErrBusy, for an unknown name
// ErrNoAdapter.
func (s *Session) UseAdapters(adapters ...string) error {
	if _, err := s.begin(context.Background()); err != nil {
		return err
	}
	defer s.end()
	return s.useAdapters(adapters)
}

// useAdapters is UseAdapters for the goroutine that has claimed the session.
func (s *Session) useAdapters(list []string) error {
	adapters, err := parseAdapters(s.engine.adapters, list)
	if err != nil {
		return err
	}
	stores, err := s.engine.store.storesWith(adapters)
	if err != nil {
		return err
	}
	s.flush() // what is being saved belongs to the adapters before
	if err := exec.UseAdapters(s.seq, adapters); err != nil {
		return err
	}
	s.stores = stores
	s.restored = min(s.restored, s.seq.Len())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adapters = adapters
	return nil
}

// storesWith returns the stores of keys and values that were computed with adapters.
func (store *sessionStore) storesWith(adapters []exec.AdapterWeight) (exec.Stores, error) {
	if store == nil || len(adapters) == 0 {
		return store.plainStores(), nil
	}
	identity := []byte(store.identity + "\x00sessions")
	for _, a := range adapters {
		id := store.adapters[a.Name]
		identity = binary.LittleEndian.AppendUint32(append(identity, id[:]...), math.Float32bits(a.Weight))
	}
	return exec.AddStores(store.model, store.dir, string(identity))
}

// plainStores returns the stores of sessions that choose no adapters.
func (store *sessionStore) plainStores() (stores exec.Stores) {
	if store != nil {
		stores = store.stores
	}
	return stores
}
