package notes

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/notes/index"
)

// An Embedder computes vectors of texts.
type Embedder interface {
	// Embed returns a vector for each text. A query is a question, which some models read with another prefix than
	// a passage.
	Embed(ctx context.Context, texts []string, query bool) ([][]float32, error)
	// Identity names the model and all that its vectors follow from.
	Identity() string
}

// A Ranker scores how well texts answer a question.
type Ranker interface {
	Rank(ctx context.Context, query string, texts []string) ([]float32, error)
}

// Options configure a vault. The zero value searches words alone.
type Options struct {
	// File is the index. "" is a file in the user's cache directory that is named after the directory of the notes.
	File string
	// RAM limits the program's memory if there is no engine, as [llmrun.MemoryOptions].RAM does.
	RAM int64
	// Embedder computes vectors; nil searches words alone. An [Encoder] is one of an engine. The index remembers it, and opening
	// the index with another one gives an error that wraps [ErrOtherEncoder].
	Embedder Embedder
	// EmbedderName is the name of the embedder that the index remembers for programs that open it later; see
	// [RememberedEncoder].
	EmbedderName string
	// Reembed permits another embedder than the one that the index remembers. The next update computes all vectors.
	Reembed bool
	// Ranker sorts the best passages once more; nil leaves them in their order.
	Ranker Ranker
	// Notify, if set, receives messages for the user, one sentence each.
	Notify func(text string)
}

// Vault is a directory of notes with its index. Its methods are safe for concurrent use.
type Vault struct {
	dir     string
	options Options
	tree    *index.Tree
	room    *llmrun.Room
	queries *queryCache

	// updating is held by updates, which can take hours, and searching by searches. Whoever closes the index holds both.
	updating  sync.Mutex
	searching sync.RWMutex
	stamps    map[string]string // of files whose content the index has; updating guards it

	mu sync.Mutex // of what follows and of room
	x  *index.Index
}

// Open opens the notes in a directory. engine, which may be nil, is the one whose memory budget the index shares.
func Open(dir string, engine *llmrun.Engine) (*Vault, error) {
	return OpenWith(dir, engine, Options{})
}

// OpenWith is Open with options.
func OpenWith(dir string, engine *llmrun.Engine, o Options) (*Vault, error) {
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if index.IsFile(full) { // a missing directory may come back, and an update reports it
		return nil, fmt.Errorf("%s is a file: name the directory of notes that it is in", dir)
	}
	if o.File == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("the user has no cache directory for the index; name a file for it: %w", err)
		}
		o.File = DefaultFile(filepath.Join(cache, "llmrun"), full)
	}
	v := &Vault{dir: full, options: o, tree: index.OpenTree(full), stamps: map[string]string{}, queries: newQueryCache()}
	if engine != nil {
		v.room = engine.NewRoom("the index of the notes")
	} else if v.room, err = llmrun.NewRoom("the index of the notes", o.RAM); err != nil {
		return nil, err
	}
	if err := v.openIndex(); err != nil {
		v.room.Close()
		return nil, err
	}
	return v, nil
}

// openIndex reads the index.
func (v *Vault) openIndex() (err error) {
	x, err := index.OpenFile(v.options.File, index.Options{Room: v.room, Model: v.identity(), Notify: v.options.Notify})
	if err != nil {
		return err
	}
	if err := v.checkEncoder(x); err != nil {
		return errors.Join(err, x.Close())
	}
	v.x = x
	return nil
}

// identity names the encoder, "" without one.
func (v *Vault) identity() string {
	if v.options.Embedder == nil {
		return ""
	}
	return v.options.Embedder.Identity()
}

// DefaultFile returns the file for the index of the notes in a directory, in llmrun's cache directory.
func DefaultFile(cache, dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(cache, "notes", fmt.Sprintf("%x.index", sum[:16]))
}

// Dir returns the directory of the notes.
func (v *Vault) Dir() string { return v.dir }

// ErrClosed reports the use of a closed vault.
var ErrClosed = errors.New("the notes are closed")

// open returns the index, and reads it again after a trim.
func (v *Vault) open() (*index.Index, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.room == nil {
		return nil, ErrClosed
	}
	if v.x == nil {
		if err := v.openIndex(); err != nil {
			return nil, err
		}
	}
	return v.x, nil
}

// Trim releases the memory of the index. The next search reads it again. During an update, which needs it, it stays.
func (v *Vault) Trim() error {
	v.queries.clear()
	if !v.updating.TryLock() {
		return nil
	}
	defer v.updating.Unlock()
	return v.closeIndex()
}

// closeIndex releases the memory of the index. The caller holds updating.
func (v *Vault) closeIndex() error {
	v.searching.Lock()
	defer v.searching.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.x == nil {
		return nil
	}
	x := v.x
	v.x = nil
	return x.Close()
}

// Notes returns how many notes the index has.
func (v *Vault) Notes() (int, error) {
	v.searching.RLock()
	defer v.searching.RUnlock()
	x, err := v.open()
	if err != nil {
		return 0, err
	}
	return x.Info().Notes, nil
}

// Held returns how many bytes the index has reserved.
func (v *Vault) Held() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.room == nil {
		return 0
	}
	return v.room.Bytes()
}

// Close releases the memory of the vault. It waits for an update, which ends with its context.
func (v *Vault) Close() error {
	v.updating.Lock()
	defer v.updating.Unlock()
	v.queries.clear()
	err := v.closeIndex()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.room != nil {
		v.room.Close()
		v.room = nil
	}
	return err
}

// File returns the file of the index.
func (v *Vault) File() string { return v.options.File }
