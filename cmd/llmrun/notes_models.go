package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/notes"
)

// passageMemory is the heap to read a passage or a question with its title.
var passageMemory = llmrun.PromptMemory(16 << 10)

// vaultFlags say how a directory of notes is opened: its index, and the models that read passages. One model is in memory at a
// time.
type vaultFlags struct {
	cache   *cacheFlags
	ram     *ramFlag
	threads int

	encoderFlag string // that names the encoder
	encoder     string // "": the one that the index remembers
	words       bool   // no encoder
	// own are options of the encoder that the command line has: nil and zero are those that the index remembers.
	own     notes.EncoderOptions
	reembed bool

	reranker   string // "": none
	rerankPath string // of the reranker; open sets it
}

// openedVault is an open directory of notes with its encoder.
type openedVault struct {
	*notes.Vault
	engine *llmrun.Engine // nil: notes are found by their words
	name   string         // of the encoder
}

// Close closes the vault, then the encoder.
func (v *openedVault) Close() error {
	err := v.Vault.Close()
	if v.engine != nil {
		err = errors.Join(err, v.engine.Close())
	}
	return err
}

// addEncoder declares the flags of the models.
func (o *vaultFlags) addEncoder(f *cli.FlagSet) {
	o.encoderFlag = "-m"
	f.Group("Model")
	f.Text(&o.encoder, "m model", "ENCODER", "embedding model that finds notes by their meaning too: GGUF file, Hugging Face directory, pack, or the name of a model in llmrun models; default: the one that the index remembers")
	f.Toggle(&o.words, "words", "use no embedding model: find notes by their words alone (BM25)")
	f.Count(&o.threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
	f.Setting("threads")
}

// addReranker declares --rerank.
func (o *vaultFlags) addReranker(f *cli.FlagSet, where string) {
	f.Text(&o.reranker, "rerank", "MODEL", where+"a reranker, such as one that llmrun rank accepts, reads the best passages with the question and sorts them; it takes the memory of the embedding model, which is closed before")
}

// check refuses flags that contradict each other.
func (o *vaultFlags) check() error {
	if o.words && (o.encoder != "" || o.own != (notes.EncoderOptions{}) || o.reembed) {
		return cli.Usagef("--words uses no embedding model: leave out %s and its options", o.encoderFlag)
	}
	return nil
}

// open opens the notes of a directory with the index in the cache directory, and the encoder.
func (o *vaultFlags) open(ctx context.Context, s *cli.Streams, dir string) (*openedVault, error) {
	where, err := o.cache.directory()
	if err != nil {
		return nil, err
	}
	if o.reranker != "" { // a wrong name fails before notes are read
		if o.rerankPath, err = findModel("--rerank", o.reranker); err != nil {
			return nil, err
		}
	}
	options := notes.Options{File: notes.DefaultFile(where, dir), RAM: o.ram.bytes, Notify: s.Note, Reembed: o.reembed}
	v := &openedVault{}
	if err := o.openEncoder(ctx, s, v, &options); err != nil {
		return nil, err
	}
	if v.Vault, err = notes.OpenWith(dir, v.engine, options); err != nil {
		if errors.Is(err, notes.ErrOtherEncoder) {
			err = fmt.Errorf("%w; leave out %s and its options to use that one, or compute all vectors again: llmrun index DIR -m MODEL --reembed", err, o.encoderFlag)
		}
		if v.engine != nil {
			err = errors.Join(err, v.engine.Close())
		}
		return nil, err
	}
	if v.engine == nil && !o.words {
		s.Note("notes are found by their words (BM25); no model is used")
	}
	return v, nil
}

// openEncoder opens the encoder of the command line, or the one that the index remembers.
func (o *vaultFlags) openEncoder(ctx context.Context, s *cli.Streams, v *openedVault, options *notes.Options) error {
	if o.words {
		return nil
	}
	was, err := notes.RememberedEncoder(options.File)
	if err != nil {
		return err
	}
	name := cmp.Or(o.encoder, was.Name)
	if name == "" {
		if o.own != (notes.EncoderOptions{}) || o.reembed {
			return cli.Usagef("the index remembers no embedding model: give one with %s", o.encoderFlag)
		}
		return nil
	}
	path, err := findModel(o.encoderFlag, name)
	if err != nil && o.encoder == "" && errors.Is(err, os.ErrNotExist) {
		s.Note(fmt.Sprintf("%s, the embedding model of the index, is not here any more; %s names another one", cli.VisibleLine(name), o.encoderFlag))
		return nil
	}
	if err != nil {
		return err
	}
	if path == name {
		if name, err = filepath.Abs(name); err != nil {
			return err
		}
	}
	encoderOptions := o.own
	if name == was.Name {
		encoderOptions = withDefaults(o.own, was.Options)
	}
	if v.engine, err = o.openModel(ctx, s, path); err != nil {
		return err
	}
	encoder, err := notes.NewEncoder(ctx, v.engine, encoderOptions)
	if err == nil && o.encoder == "" && !o.reembed && o.own == (notes.EncoderOptions{}) && encoder.Identity() != was.Identity {
		err = fmt.Errorf("%s has changed since the vectors of the index were computed: llmrun index DIR --reembed computes them again, and --words does without", cli.VisibleLine(name))
	}
	if err != nil {
		return errors.Join(err, v.engine.Close())
	}
	v.name, options.EmbedderName, options.Embedder = name, name, encoder
	return nil
}

// withDefaults returns the options of an encoder, and for those that are not given others.
func withDefaults(own, others notes.EncoderOptions) notes.EncoderOptions {
	own.Dimensions, own.Pooling = cmp.Or(own.Dimensions, others.Dimensions), cmp.Or(own.Pooling, others.Pooling)
	own.QueryPrefix, own.PassagePrefix = cmp.Or(own.QueryPrefix, others.QueryPrefix), cmp.Or(own.PassagePrefix, others.PassagePrefix)
	return own
}

// openModel opens a model that reads passages.
func (o *vaultFlags) openModel(ctx context.Context, s *cli.Streams, path string) (*llmrun.Engine, error) {
	m := modelFlags{path: path, threads: o.threads, cache: o.cache, ram: *o.ram, describes: true}
	m.prompt.memory = passageMemory
	return m.open(ctx, s)
}

// search searches an open vault, and closes it. A reranker is opened behind that.
func (o *vaultFlags) search(ctx context.Context, s *cli.Streams, v *openedVault, question string, options notes.SearchOptions) ([]notes.Hit, error) {
	most := options.Most
	if o.rerankPath != "" {
		options.Most = notes.RerankDepth(most)
	}
	hits, err := v.Search(ctx, question, options)
	if err = errors.Join(err, v.Close()); err != nil || o.rerankPath == "" || len(hits) == 0 {
		return hits, err
	}
	engine, err := o.openModel(ctx, s, o.rerankPath)
	if err != nil {
		return nil, err
	}
	hits, err = notes.Rerank(ctx, engine, question, hits, most)
	return hits, errors.Join(err, engine.Close())
}
