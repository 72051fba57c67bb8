package serve

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/llmrun/llmrun"
)

// ollamaShow describes one model.
type ollamaShow struct {
	License      string         `json:"license"`
	Modelfile    string         `json:"modelfile"`
	Parameters   string         `json:"parameters"`
	Template     string         `json:"template"`
	Details      ollamaDetails  `json:"details"`
	ModelInfo    map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
	Modified     time.Time      `json:"modified_at"`
}

func (s *Server) showOllama(w http.ResponseWriter, r *http.Request) {
	shown, err := s.describeOllama(w, r)
	if err != nil {
		ollama{}.refuse(w, s.problemOf(r.Context(), err))
		return
	}
	writeJSON(w, http.StatusOK, shown)
}

func (s *Server) describeOllama(w http.ResponseWriter, r *http.Request) (*ollamaShow, error) {
	var name string
	if err := s.readObject(w, r, func(o *object) { name = ollamaName(o) }); err != nil {
		return nil, err
	}
	o, err := s.models.find(name)
	if err != nil {
		return nil, err
	}
	d, err := o.describe()
	if err != nil {
		return nil, err
	}
	can, err := o.capabilities()
	if err != nil {
		return nil, err
	}
	i := &d.info
	parameters := parameterLines(&d.sampling, "")
	return &ollamaShow{
		License: o.License, Template: d.template, Parameters: parameters,
		Modelfile: "FROM " + o.Name + "\n" + parameterLines(&d.sampling, "PARAMETER "),
		Details:   d.details(), Capabilities: can, Modified: s.modified(o.entry),
		ModelInfo: map[string]any{
			"general.architecture": i.Family, "general.basename": i.Name, "general.parameter_count": i.Parameters,
			i.Family + ".context_length": i.MaxContext, i.Family + ".block_count": i.Layers, i.Family + ".embedding_length": i.Dim,
			i.Family + ".feed_forward_length": i.FFN, i.Family + ".vocab_size": i.Vocab,
			i.Family + ".attention.head_count": i.Heads, i.Family + ".attention.head_count_kv": i.KVHeads,
		},
	}, nil
}

// parameterLines lists the parameters that the model's authors suggest, each on a line behind a word.
func parameterLines(s *llmrun.Sampling, word string) string {
	var lines strings.Builder
	for _, p := range []struct {
		name  string
		value float32
	}{
		{"temperature", s.Temperature},
		{"top_k", float32(s.TopK)},
		{"top_p", s.TopP},
		{"min_p", s.MinP},
		{"typical_p", s.TypicalP},
		{"repeat_penalty", s.RepeatPenalty},
		{"presence_penalty", s.PresencePenalty},
		{"frequency_penalty", s.FrequencyPenalty},
	} {
		if p.value != 0 {
			fmt.Fprintf(&lines, "%s%s %v\n", word, p.name, p.value)
		}
	}
	return lines.String()
}

// ollamaName reads the name of a model, whose field had another name in older versions of the API.
func ollamaName(o *object) string {
	if name := o.text("model"); name != "" {
		return name
	}
	return o.text("name")
}

// readNewName reads the name that a model shall have, too.
func readNewName(o *object) string {
	const field, most = "destination", 128
	name := o.text(field)
	unfit := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) || c == '\\' }
	if name == "" || len(name) > most || strings.ContainsFunc(name, unfit) || strings.Contains(name, "..") || strings.HasPrefix(name, "/") {
		o.fail(field, fmt.Sprintf("must be a name of at most %d bytes without spaces, and not a path", most))
	}
	return name
}

// manage returns the handler of requests that change which models there are. read returns what does it.
func (s *Server) manage(read func(r *http.Request, o *object) func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var change func() error
		err := s.readObject(w, r, func(o *object) { change = read(r, o) })
		if err == nil {
			err = change()
		}
		if err != nil {
			ollama{}.refuse(w, s.problemOf(r.Context(), err))
			return
		}
		w.WriteHeader(http.StatusOK)
	}
}
