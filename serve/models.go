package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmrun/llmrun"
)

// A Model is one that the server offers.
type Model struct {
	Name string // as requests name it
	Path string // as [llmrun.Open] takes it
	// Options open the model. The server sets Memory.RAM if its own Options.RAM is set. Requests choose an adapter of
	// Options.Adapters with a name by the model NAME:ADAPTER.
	Options llmrun.Options
	// Modified is the time that listings show; zero = when the server was made.
	Modified time.Time
	License  string   // the text that ollama's /api/show has
	Names    []string // further names, of a model that a [Puller] has downloaded
}

// registry opens models on demand and closes those that are idle.
type registry struct {
	ram       int64         // budget of each model; with one, one model is open at a time. 0 = the available memory, negative = no limit
	keepAlive time.Duration // negative = for ever

	// open, close and totals replace those of package llmrun in tests.
	open   func(context.Context, *Model) (*llmrun.Engine, error)
	close  func(*llmrun.Engine) error
	totals func(*llmrun.Engine) engineTotals

	// door lets one request at a time choose its model. A request that waits for others to leave a model holds it, so that
	// requests behind it cannot keep that model busy for ever.
	door chan struct{}

	only *entry // the model of requests that name none; nil if there are several

	mu      sync.Mutex
	all     []*entry
	aliases []offered
	closed  bool
	idle    chan struct{} // closed and replaced when a model becomes idle, or is closed
	left    chan struct{} // closed and replaced when a request leaves a model
	// unloading is the number of engines that are being closed. That can take long, so it happens without the lock.
	unloading int
	retired   engineTotals // of engines that were closed
}

// offered is a model with a name under which requests find it: its own, that of one of its adapters, or one that a client has copied
// it to.
type offered struct {
	name string
	*entry
	adapter string // of its Options.Adapters; "" = the model alone
}

// entry is a model of the registry. The fields below engine are guarded by registry.mu.
type entry struct {
	Model
	describe func() (description, error) // describeOnce, or another one in tests
	pulled   bool                        // it is of Options.Puller
	names    []string                    // its further names that are no copies

	described once[description]
	capable   once[[]string]

	engine   *llmrun.Engine // nil unless open
	users    int
	further  int // generations that run beside the first one of their requests
	starved  int // generations and other users that wait for memory
	lastUsed time.Time
	expires  time.Time // zero = never
	keep     time.Duration
	timer    *time.Timer // closes the model
	warm     []*llmrun.Session
}

// description is what listings show of a model.
type description struct {
	info     llmrun.Info
	template string
	sampling llmrun.Sampling
	digest   string
}

// Reasons why a name is refused.
var (
	errUnknownModel = errors.New("there is no such model")
	errKeptModel    = errors.New("the model was given to the server with its file, which clients cannot remove or replace")
)

func newRegistry(o *Options) *registry {
	r := &registry{
		ram: o.RAM, keepAlive: o.KeepAlive,
		door: make(chan struct{}, 1), idle: make(chan struct{}), left: make(chan struct{}),
		close: (*llmrun.Engine).Close, totals: totalsOf,
	}
	r.open = func(ctx context.Context, m *Model) (*llmrun.Engine, error) {
		options := m.Options
		if r.ram != 0 {
			options.Memory.RAM = r.ram
		}
		return llmrun.OpenContext(ctx, m.Path, options)
	}
	for i := range o.Models {
		r.all = append(r.all, newEntry(&o.Models[i]))
	}
	if len(r.all) == 1 {
		r.only = r.all[0]
	}
	return r
}

func newEntry(m *Model) *entry {
	e := &entry{Model: *m}
	e.describe = e.describeOnce
	return e
}

// once remembers what a file says, but not an error: the file may be there the next time.
type once[T any] struct {
	mu  sync.Mutex
	got *T
}

func (o *once[T]) get(read func() (T, error)) (value T, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.got != nil {
		return *o.got, nil
	}
	if value, err = read(); err == nil {
		o.got = &value
	}
	return value, err
}

// describeOnce is describe that remembers its result.
func (e *entry) describeOnce() (description, error) {
	return e.described.get(func() (description, error) { return describe(&e.Model) })
}

// capabilities names what the model can do, as ollama's API has it. To find out renders the chat template a few times, and a
// template of others can take long, so listings do without.
func (e *entry) capabilities() ([]string, error) {
	return e.capable.get(func() ([]string, error) {
		i, err := llmrun.Inspect(e.Path, e.Options)
		if err != nil {
			return nil, err
		}
		if i.Describes() {
			return []string{"embedding"}, i.Close()
		}
		can := []string{"completion"}
		if i.HasTools() {
			can = append(can, "tools")
		}
		if len(i.ThinkingLevels()) > 0 {
			can = append(can, "thinking")
		}
		return can, i.Close()
	})
}

// describe reads what listings show, without the weights. Of a file that cannot be read, the digest is that of its name.
func describe(m *Model) (d description, err error) {
	i, err := llmrun.Inspect(m.Path, m.Options)
	if err == nil {
		d.info, d.template, d.sampling = i.Info(), i.ChatTemplate(), i.DefaultSampling()
		err = i.Close()
	}
	text, _ := json.Marshal(d.info) // numbers and texts
	sum := sha256.Sum256(append([]byte(m.Name+"\x00"), text...))
	d.digest = hex.EncodeToString(sum[:])
	return d, err
}

// find returns the model with a name. An empty name means the only model that the server was started with, and the tag latest is as good as none.
func (r *registry) find(name string) (o offered, err error) {
	if name == "" {
		if r.only != nil {
			return offered{name: r.only.Name, entry: r.only}, nil
		}
		return o, &fieldError{"model", "is missing"}
	}
	list := r.offered()
	for _, o := range list {
		if o.hasName(name) {
			return o, nil
		}
	}
	if r.only != nil { // its adapters need no more than their own names
		for _, o := range list {
			if o.entry == r.only && o.adapter != "" && o.adapter == name {
				return o, nil
			}
		}
	}
	if strings.Contains(name, "..") || strings.ContainsAny(name, "\\\x00") || strings.HasPrefix(name, "/") {
		return o, &fieldError{"model", "must be a name, not a path"}
	}
	return o, fmt.Errorf("%w: %q", errUnknownModel, shorten(name))
}

func (o offered) hasName(name string) bool {
	return o.name == name || o.name+":latest" == name || o.name == name+":latest"
}

// offered lists the models with all their names.
func (r *registry) offered() []offered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.offeredLocked()
}

// offeredLocked is offered for callers that hold r.mu.
func (r *registry) offeredLocked() (list []offered) {
	for _, e := range r.all {
		list = append(list, offered{name: e.Name, entry: e})
		for _, adapter := range e.adapters() {
			list = append(list, offered{e.adapted(adapter), e, adapter})
		}
	}
	return append(list, r.aliases...)
}

// adapters returns the names of the adapters that requests choose.
func (m *Model) adapters() []string { return m.Options.AdapterNames() }

// adapted returns the name of the model with an adapter. Clients of ollama's API take it for a model with a tag.
func (m *Model) adapted(adapter string) string { return m.Name + ":" + adapter }

// maxAliases bounds the names that clients give.
const maxAliases = 256

// copy gives a model a further name until the server ends. Both names mean the same open model.
func (r *registry) copy(source, name string) error {
	o, err := r.find(source)
	if err != nil {
		return err
	}
	if err := r.remove(name); err != nil && !errors.Is(err, errUnknownModel) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.aliases) >= maxAliases {
		return badRequest(fmt.Sprintf("models have %d further names already; delete one", maxAliases))
	}
	r.aliases = append(r.aliases, offered{name, o.entry, o.adapter})
	return nil
}

// remove takes back a name that copy has given. Models stay.
func (r *registry) remove(name string) error {
	o, err := r.find(name)
	if err != nil {
		return err
	}
	if o.name == o.Name || o.adapter != "" && o.name == o.adapted(o.adapter) {
		return fmt.Errorf("%q: %w", o.name, errKeptModel)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.aliases = slices.DeleteFunc(r.aliases, func(a offered) bool { return a.name == o.name })
	return nil
}

// use returns the engine of a model, which it opens if necessary. The caller calls release.
func (r *registry) use(ctx context.Context, e *entry) (engine *llmrun.Engine, err error) {
	select {
	case r.door <- struct{}{}:
		defer func() { <-r.door }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if engine, err := r.hold(e); engine != nil || err != nil {
		return engine, err
	}
	if r.ram > 0 {
		if err := r.closeOthers(ctx, e); err != nil {
			return nil, err
		}
	}
	if err := r.waitForUnloading(ctx); err != nil {
		return nil, err
	}
	r.makeRoom(e)
	for {
		engine, err = r.open(ctx, &e.Model)
		if !errors.Is(err, llmrun.ErrBudget) || !r.closeOldest() {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.Join(errClosed, r.close(engine))
	}
	e.engine, e.users, e.keep = engine, 1, r.keepAlive
	return engine, nil
}

// hold returns the engine of a model that is open, and nil for others.
func (r *registry) hold(e *entry) (*llmrun.Engine, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	if e.engine != nil {
		e.users++
		e.stopTimer()
	}
	return e.engine, nil
}

// closeOthers closes all other models when they are idle.
func (r *registry) closeOthers(ctx context.Context, wanted *entry) error {
	for {
		r.mu.Lock()
		busy, idle := false, r.idle
		var engines []*llmrun.Engine
		for _, e := range r.all {
			if e != wanted && e.engine != nil {
				if e.users > 0 {
					busy = true
				} else {
					engines = append(engines, r.unload(e))
				}
			}
		}
		r.mu.Unlock()
		if err := r.closeEngines(engines...); err != nil || !busy {
			return err
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waitForUnloading waits until the engines that others close have returned their memory.
func (r *registry) waitForUnloading(ctx context.Context) error {
	for {
		r.mu.Lock()
		unloading, idle := r.unloading, r.idle
		r.mu.Unlock()
		if unloading == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// makeRoom closes idle models while a model exceeds the memory that is available. It could stream its weights
// from flash instead, which is slower.
func (r *registry) makeRoom(e *entry) {
	r.mu.Lock()
	open := slices.ContainsFunc(r.all, func(e *entry) bool { return e.engine != nil })
	r.mu.Unlock()
	if r.ram > 0 || !open {
		return
	}
	d, err := e.describe()
	for err == nil && llmrun.AvailableMemory() < d.info.WeightBytes && r.closeOldest() {
	}
}

// closeOldest closes the idle model that was used longest ago, and reports whether there was one.
func (r *registry) closeOldest() bool {
	r.mu.Lock()
	var oldest *entry
	for _, e := range r.all {
		if e.engine != nil && e.users == 0 && (oldest == nil || e.lastUsed.Before(oldest.lastUsed)) {
			oldest = e
		}
	}
	if oldest == nil {
		r.mu.Unlock()
		return false
	}
	engine := r.unload(oldest)
	r.mu.Unlock()
	return r.closeEngines(engine) == nil
}

// setKeepAlive sets how long a model in use stays open afterwards; negative = for ever.
func (r *registry) setKeepAlive(e *entry, keep time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.keep = keep
}

// release ends a use of a model.
func (r *registry) release(e *entry) {
	if engine := r.leave(e); engine != nil {
		_ = r.closeEngines(engine) // no request is there to receive the error
	}
}

// leave is release without closing: it returns the engine that must be closed, or nil.
func (r *registry) leave(e *entry) *llmrun.Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.users--
	e.lastUsed = time.Now()
	r.announceLeft()
	if e.users > 0 {
		return nil
	}
	r.announceIdle()
	switch {
	case e.engine == nil || e.keep < 0:
	case e.keep == 0:
		return r.unload(e)
	default:
		e.expires = e.lastUsed.Add(e.keep)
		e.timer = time.AfterFunc(e.keep, func() { r.expire(e) })
	}
	return nil
}

// announceIdle lets those go on that wait for a model. The caller holds r.mu.
func (r *registry) announceIdle() {
	close(r.idle)
	r.idle = make(chan struct{})
}

// expire closes a model whose time is over, unless a request uses it again.
func (r *registry) expire(e *entry) {
	r.mu.Lock()
	var engine *llmrun.Engine
	if e.engine != nil && e.users == 0 && !e.expires.IsZero() && !time.Now().Before(e.expires) {
		engine = r.unload(e)
	}
	r.mu.Unlock()
	if engine != nil {
		_ = r.closeEngines(engine) // no request is there to receive the error
	}
}

func (e *entry) stopTimer() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer, e.expires = nil, time.Time{}
	}
}

// unload takes the engine of an idle model, which the caller closes with closeEngines when it has left r.mu, which it holds.
func (r *registry) unload(e *entry) *llmrun.Engine {
	e.stopTimer()
	engine := e.engine
	e.engine, e.warm = nil, nil // closing the engine closes the sessions
	r.retired.add(r.totals(engine))
	r.unloading++
	return engine
}

// closeEngines closes engines that unload has returned.
func (r *registry) closeEngines(engines ...*llmrun.Engine) (err error) {
	for _, engine := range engines {
		err = errors.Join(err, r.close(engine))
		r.mu.Lock()
		r.unloading--
		r.announceIdle()
		r.mu.Unlock()
	}
	return err
}

// maxWarm is the number of sessions that stay open behind their answers. Sessions share the keys and values of a common
// beginning, so that the next turn of a conversation prefills only what is new.
const maxWarm = 2

// keepWarm keeps a session, and closes the oldest one if there are more than maxWarm.
func (r *registry) keepWarm(e *entry, s *llmrun.Session) error {
	r.mu.Lock()
	e.warm = append(e.warm, s)
	var oldest *llmrun.Session
	if len(e.warm) > maxWarm {
		oldest, e.warm = e.warm[0], e.warm[1:]
	}
	r.mu.Unlock()
	if oldest == nil {
		return nil
	}
	return oldest.Close()
}

// begin counts a generation of a request, which may run several at the same time, and returns the function that ends it.
func (r *registry) begin(u *use) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.generations++; u.generations > 1 {
		u.further++
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if u.generations--; u.generations > 0 { // the end of the last one is that of the request
			u.further--
			r.announceLeft()
		}
	}
}

// announceLeft lets those try again that wait for memory. The caller holds r.mu.
func (r *registry) announceLeft() {
	close(r.left)
	r.left = make(chan struct{})
}

// kvRoom makes room for the keys and values of one generation, which uses a model.
type kvRoom struct {
	models *registry
	model  *entry
	alone  bool // the generation tried again although nothing had ended
}

// make closes the warm sessions of the model, or waits until another generation of the model ends. It reports whether the
// generation should try again. If all of the model wait, none would end: the last one does not wait, and tries again once,
// because those that wait hold nothing.
func (k *kvRoom) make(ctx context.Context) bool {
	r, e := k.models, k.model
	if r.cool(e) {
		return true
	}
	r.mu.Lock()
	left := r.left
	if e.starved+1 >= e.users+e.further {
		again := e.starved > 0 && !k.alone
		k.alone = true
		r.mu.Unlock()
		return again
	}
	k.alone = false
	e.starved++
	r.mu.Unlock()
	select {
	case <-left:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.starved--
	return ctx.Err() == nil
}

// cool closes the warm sessions of a model, whose memory a request needs, and reports whether there were any.
func (r *registry) cool(e *entry) bool {
	r.mu.Lock()
	warm := e.warm
	e.warm = nil
	r.mu.Unlock()
	for _, s := range warm {
		_ = s.Close() // the next answer matters more than what was saved of the last one
	}
	return len(warm) > 0
}

// loaded is an open model, as listings show it.
type loaded struct {
	*entry
	until  time.Time // zero = never, or in use
	memory int64
	held   map[string]int64 // by purpose
	totals engineTotals
}

// loaded lists the open models, and returns the counters of those that were closed.
func (r *registry) loaded() (list []loaded, retired engineTotals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		if e.engine != nil {
			list = append(list, loaded{e, e.expires, e.engine.MemoryUsed(), e.engine.Memory().Held, r.totals(e.engine)})
		}
	}
	return list, r.retired
}

// settle refuses further uses and waits until no model is in use, at most for a time.
func (r *registry) settle(most time.Duration) {
	end := time.NewTimer(most)
	defer end.Stop()
	for {
		r.mu.Lock()
		r.closed = true
		busy, idle := slices.ContainsFunc(r.all, func(e *entry) bool { return e.users > 0 }), r.idle
		r.mu.Unlock()
		if !busy {
			return
		}
		select {
		case <-idle:
		case <-end.C:
			return
		}
	}
}

// shutdown closes all models. Generations that still run end.
func (r *registry) shutdown() error {
	r.mu.Lock()
	r.closed = true
	var engines []*llmrun.Engine
	for _, e := range r.all {
		if e.engine != nil {
			engines = append(engines, r.unload(e))
		}
	}
	r.mu.Unlock()
	return errors.Join(r.closeEngines(engines...), r.waitForUnloading(context.Background()))
}
