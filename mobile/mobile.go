// Package mobile is the library for apps in other languages: its functions take and return strings, numbers and bytes,
// and call back. Tools that generate bindings of Go, such as gomobile, accept nothing else.
//
// Objects are closed by their owner. Methods block: call them outside of the thread of the user interface.
package mobile

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/notes"
)

// errStopped is the error of work that [Model.Stop] or a callback has ended.
var errStopped = errors.New("stopped")

// Listener receives an answer while it is generated.
type Listener interface {
	// OnText receives the next piece. The answer ends if it returns false.
	OnText(text string) bool
}

// Progress receives how far an update is.
type Progress interface {
	// OnProgress ends the update if it returns false. Finished notes stay.
	OnProgress(done, total int) bool
}

// Model is a model in memory.
type Model struct {
	engine *llmrun.Engine

	mu      sync.Mutex
	running map[*context.CancelCauseFunc]bool
}

// OpenModel opens a model. ramBytes limits the memory of the whole app, as llmrun's --ram does; 0 is what is available.
// cacheDir is where the model is imported to; "" imports nothing.
func OpenModel(path, cacheDir string, ramBytes int64) (*Model, error) {
	o := llmrun.Options{Memory: llmrun.MemoryOptions{RAM: ramBytes}, Cache: llmrun.CacheOptions{Dir: cacheDir}}
	engine, err := llmrun.Open(path, o)
	if err != nil {
		return nil, err
	}
	return &Model{engine: engine, running: map[*context.CancelCauseFunc]bool{}}, nil
}

// begin returns a context that Stop ends.
func (m *Model) begin() (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[&cancel] = true
	return ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.running, &cancel)
		cancel(nil)
	}
}

// Stop ends all answers under way.
func (m *Model) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for cancel := range m.running {
		(*cancel)(errStopped)
	}
}

// Generate answers a prompt, and returns the whole answer.
func (m *Model) Generate(prompt string, maxTokens int, listener Listener) (string, error) {
	ctx, end := m.begin()
	defer end()
	session, err := m.engine.NewSession()
	if err != nil {
		return "", err
	}
	defer session.Close()
	return generate(ctx, session, prompt, maxTokens, listener)
}

// generate answers a prompt in a session.
func generate(ctx context.Context, session *llmrun.Session, prompt string, maxTokens int, listener Listener) (string, error) {
	var answer strings.Builder
	for piece, err := range session.Chat(ctx, prompt, llmrun.GenerateOptions{MaxTokens: maxTokens}) {
		if err != nil {
			return answer.String(), err
		}
		answer.WriteString(piece.Text)
		if listener != nil && piece.Text != "" && !listener.OnText(piece.Text) {
			return answer.String(), errStopped
		}
	}
	return answer.String(), nil
}

// Ask answers a question from notes. It returns a JSON object: {"answer":"…","sources":["…"]}.
func (m *Model) Ask(vault *Vault, question string, maxTokens int, listener Listener) (string, error) {
	if vault == nil {
		return "", errors.New("the vault is null: use Generate without notes")
	}
	ctx, end := m.begin()
	defer end()
	q, err := vault.v.Ask(ctx, question, notes.AskOptions{})
	if err != nil {
		return "", err
	}
	session, err := m.engine.NewSession()
	if err != nil {
		return "", err
	}
	defer session.Close()
	if err := q.FitSession(m.engine, session, maxTokens); err != nil {
		return "", err
	}
	answer, err := generate(ctx, session, q.Prompt(), maxTokens, listener)
	if err != nil {
		return "", err
	}
	return toJSON(map[string]any{"answer": answer, "sources": append([]string{}, q.Sources(answer)...)})
}

// Trim releases memory: level 0 takes it back, 1 releases what is not in use, 2 some weights too, 3 all that can be read
// again. It returns the bytes that were released.
func (m *Model) Trim(level int) (int64, error) {
	levels := []llmrun.TrimLevel{llmrun.TrimNone, llmrun.TrimModerate, llmrun.TrimLow, llmrun.TrimCritical}
	if level < 0 || level >= len(levels) {
		return 0, errors.New("the level must be 0, 1, 2 or 3")
	}
	return m.engine.Trim(context.Background(), levels[level])
}

// Close releases the model. Close vaults that were opened with it before.
func (m *Model) Close() error {
	m.Stop()
	return m.engine.Close()
}

// Vault is a directory of notes.
type Vault struct {
	v       *notes.Vault
	encoder *Model // nil: notes are found by their words
}

// OpenVault opens the notes of a directory, with the index in a file of the app. model may be null; otherwise the index
// counts in the model's memory limit, and without one ramBytes limits the app's memory, 0 for what is available.
func OpenVault(dir, indexFile string, model *Model, ramBytes int64) (*Vault, error) {
	var engine *llmrun.Engine
	if model != nil {
		engine = model.engine
	}
	v, err := notes.OpenWith(dir, engine, notes.Options{File: indexFile, RAM: ramBytes})
	if err != nil {
		return nil, err
	}
	return &Vault{v: v}, nil
}

// OpenVaultWithEncoder is OpenVault with an embedding model, in whose memory limit the index counts. Notes are found by their
// meaning too. name is remembered in the index. reembed permits another model than the one whose vectors the index has: the next
// update computes all of them.
func OpenVaultWithEncoder(dir, indexFile string, encoder *Model, name string, reembed bool) (*Vault, error) {
	if encoder == nil {
		return nil, errors.New("the encoder is null: use OpenVault without one")
	}
	e, err := notes.NewEncoder(context.Background(), encoder.engine, notes.EncoderOptions{})
	if err != nil {
		return nil, err
	}
	v, err := notes.OpenWith(dir, encoder.engine, notes.Options{File: indexFile, Embedder: e, EmbedderName: name, Reembed: reembed})
	if err != nil {
		return nil, err
	}
	return &Vault{v, encoder}, nil
}

// begin returns a context that Stop of the encoder ends.
func (v *Vault) begin() (ctx context.Context, end func()) {
	if v.encoder == nil {
		return context.Background(), func() {}
	}
	return v.encoder.begin()
}

// Update brings the index up to date, and returns how many notes were new or changed. It reports the progress of the notes, and then
// of the passages that an encoder embeds.
func (v *Vault) Update(progress Progress) (int, error) {
	outer, end := v.begin()
	defer end()
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	done, err := v.v.UpdateWith(ctx, func(p notes.UpdateProgress) {
		if progress != nil && !progress.OnProgress(p.Done, p.Total) {
			cancel(errStopped)
		}
	})
	return done.Computed, err
}

// Search finds passages. It returns a JSON object: {"hits":[{"file":"…","start":…,"end":…,"score":…,"text":"…"}]}.
func (v *Vault) Search(question string, most int) (string, error) {
	ctx, end := v.begin()
	defer end()
	hits, err := v.v.Search(ctx, question, notes.SearchOptions{Most: most})
	if err != nil {
		return "", err
	}
	return toJSON(map[string]any{"hits": append([]notes.Hit{}, hits...)})
}

// Trim releases the memory of the index until the next search.
func (v *Vault) Trim() error { return v.v.Trim() }

// Close releases the vault.
func (v *Vault) Close() error { return v.v.Close() }

func toJSON(value any) (string, error) {
	b, err := json.Marshal(value)
	return string(b), err
}
