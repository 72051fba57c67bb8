package notes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/notes/index"
)

// AskOptions configure the passages of a question.
type AskOptions struct {
	Most    int // passages; 0 means 8
	PerNote int // of one note; 0 means 3
}

// Question is a question with the passages of notes that may answer it, the best one first.
type Question struct {
	Text     string
	Passages []Hit
}

// Search returns the options of the search for passages.
func (o AskOptions) Search() SearchOptions {
	return SearchOptions{Most: cmp.Or(max(0, o.Most), 8), PerNote: cmp.Or(max(0, o.PerNote), 3)}
}

// Ask finds the passages for a question. Without any, the model answers from what it knows.
func (v *Vault) Ask(ctx context.Context, question string, o AskOptions) (*Question, error) {
	hits, err := v.Search(ctx, question, o.Search())
	return &Question{question, hits}, err
}

// Prompt returns the message to a model: the passages with the names of their files, then the question. It ends with
// the question, as prompts about a text do on which models are trained.
func (q *Question) Prompt() string {
	var b strings.Builder
	for _, p := range q.Passages {
		fmt.Fprintf(&b, "%s:\n%s\n\n", p.File, p.Text)
	}
	return b.String() + q.Text
}

// Fit leaves out the last passages until the prompt has at most room tokens, which count counts.
func (q *Question) Fit(room int, count func(text string) (int, error)) error {
	for len(q.Passages) > 0 {
		n, err := count(q.Prompt())
		if err != nil || n <= room {
			return err
		}
		q.Passages = q.Passages[:len(q.Passages)-1]
	}
	return nil
}

// Sources returns the files from which an answer comes: those of the passages that have most words of the answer, where
// a word counts the less the more passages have it. There is always one if there are passages.
func (q *Question) Sources(answer string) (files []string) {
	words := make([]map[uint64]bool, len(q.Passages))
	have := map[uint64]int{}
	for i, p := range q.Passages {
		words[i] = map[uint64]bool{}
		for _, word := range index.Words(p.Text) {
			if !words[i][word] {
				words[i][word] = true
				have[word]++
			}
		}
	}
	scores := make([]float64, len(q.Passages))
	best := 0.0
	for _, word := range slices.Compact(slices.Sorted(slices.Values(index.Words(answer)))) {
		for i := range words {
			if words[i][word] {
				scores[i] += 1 / float64(have[word])
				best = max(best, scores[i])
			}
		}
	}
	for i, p := range q.Passages {
		if (best == 0 && i == 0 || best > 0 && scores[i] >= best/2) && !slices.Contains(files, p.File) {
			files = append(files, p.File)
		}
	}
	return sortByScore(q.Passages, scores, files)
}

// sortByScore sorts files by the best score of their passages.
func sortByScore(passages []Hit, scores []float64, files []string) []string {
	of := map[string]float64{}
	for i, p := range passages {
		of[p.File] = max(of[p.File], scores[i])
	}
	slices.SortStableFunc(files, func(a, b string) int {
		switch {
		case of[a] > of[b]:
			return -1
		case of[a] < of[b]:
			return 1
		}
		return 0
	})
	return files
}
