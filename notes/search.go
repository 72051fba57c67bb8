package notes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/notes/index"
)

// SearchOptions configure a search.
type SearchOptions struct {
	// Most is the most hits; 0 means 10.
	Most int
	// PerNote is the most hits of one note; 0 means 1.
	PerNote int
}

// Hit is a passage that a search has found.
type Hit struct {
	File  string  `json:"file"`  // below the directory of the notes, with slashes
	Start int     `json:"start"` // bytes of the file
	End   int     `json:"end"`
	Score float64 `json:"score"` // comparable within one search
	Text  string  `json:"text"`
	Title string  `json:"-"` // of the note
}

// rerankFactor is how many times as many passages as are wanted a [Ranker] reads.
const rerankFactor = 3

// Search returns the passages that match a question best. Passages of notes that have changed since the last update, so
// that they are not what the index has seen, are left out.
func (v *Vault) Search(ctx context.Context, question string, o SearchOptions) ([]Hit, error) {
	x, err := v.open()
	if err != nil {
		return nil, err
	}
	most := cmp.Or(o.Most, 10)
	q := index.Query{Text: question, Most: most, PerNote: o.PerNote}
	if v.options.Ranker != nil {
		q.Most *= rerankFactor
	}
	if q.Vector, err = v.embedQuestion(ctx, question); err != nil {
		return nil, err
	}
	found, err := x.Search(q)
	if err != nil {
		return nil, err
	}
	hits := v.read(found)
	if v.options.Ranker != nil && len(hits) > 1 {
		if err := v.rerank(ctx, question, hits); err != nil {
			return nil, err
		}
	}
	return hits[:min(most, len(hits))], nil
}

// embedQuestion returns the vector of a question, nil without an encoder.
func (v *Vault) embedQuestion(ctx context.Context, question string) ([]float32, error) {
	e := v.options.Embedder
	if e == nil {
		return nil, nil
	}
	return v.queries.get(question, func() ([]float32, error) {
		vectors, err := e.Embed(ctx, []string{question}, true)
		if err == nil && len(vectors) != 1 {
			err = fmt.Errorf("the model gave %d vectors for a question", len(vectors))
		}
		if err != nil {
			return nil, err
		}
		return vectors[0], nil
	})
}

// read reads the texts of hits from their notes, each note once.
func (v *Vault) read(found []index.Hit) []Hit {
	hits := make([]Hit, 0, len(found))
	texts := map[string][]byte{}
	for _, h := range found {
		text, known := texts[h.Path]
		if !known {
			text, _ = v.tree.Read(h.Path) // one that cannot be read has no hits
			texts[h.Path] = text
		}
		if h.End > len(text) {
			continue
		}
		passage := text[h.Start:h.End]
		if sum := sha256.Sum256([]byte(index.EmbedText(h.Title, passage))); index.Key(sum[:index.KeyBytes]) != h.Key {
			continue
		}
		hits = append(hits, Hit{h.Path, h.Start, h.End, h.Score, string(passage), h.Title})
	}
	return hits
}

// rerank sorts hits by the scores of the ranker.
func (v *Vault) rerank(ctx context.Context, question string, hits []Hit) error {
	texts := make([]string, len(hits))
	for i := range hits {
		texts[i] = index.EmbedText(hits[i].Title, []byte(hits[i].Text))
	}
	scores, err := v.options.Ranker.Rank(ctx, question, texts)
	if err != nil {
		return err
	}
	if len(scores) != len(hits) {
		return fmt.Errorf("the model gave %d scores for %d passages", len(scores), len(hits))
	}
	for i := range hits {
		hits[i].Score = float64(scores[i])
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return nil
}
