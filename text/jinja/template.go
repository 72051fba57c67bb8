package jinja

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Template is a parsed chat template. It is immutable and safe for concurrent use.
type Template struct {
	body []stmt
}

// Message is the plain form of a message. Messages with more than a text, such as
// tool calls, are given as *Object or map[string]any.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Input holds the variables of one rendering. Values may be nil, bool, int, int64,
// float64, string, json.Number, []any, map[string]any, *Object and Message.
type Input struct {
	Messages            []any
	Tools               []any // none where nil, as transformers passes it
	Documents           []any // none where nil
	AddGenerationPrompt bool
	BOS, EOS            string // bos_token and eos_token
	// Now is the time that strftime_now shows; the zero value is the time of rendering.
	Now time.Time
	// Extra holds further variables, such as enable_thinking; it may replace any of the others.
	Extra map[string]any
}

// Parse reads a template. The error, an *Error, names the line and the construct
// that is malformed (ErrSyntax), outside the subset (ErrUnsupported) or too large
// (ErrLimit).
func Parse(source string) (*Template, error) {
	body, err := parse(source)
	if err != nil {
		return nil, err
	}
	return &Template{body}, nil
}

// Render returns the text that t gives for in. It takes under a second and bounded
// memory whatever the template does; in is not changed. The error is an *Error
// of kind ErrRaised (the template refuses the conversation, in its own words),
// ErrRuntime, ErrUnsupported, ErrLimit or ErrInput.
func (t *Template) Render(in Input) (string, error) {
	root := newScope(nil)
	cv := &converter{}
	vars := in.variables()
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		converted, err := cv.convert(vars[name], name, 0)
		if err != nil {
			return "", err
		}
		root.set(name, converted)
	}
	now := func() time.Time {
		if in.Now.IsZero() {
			return time.Now()
		}
		return in.Now
	}
	for _, f := range globalFunctions(now) {
		if _, taken, _ := root.lookup(f.name); !taken {
			root.set(f.name, f)
		}
	}
	r := &renderer{meter: newMeter(cv.size), root: root, out: &strings.Builder{}, filters: filters, tests: tests}
	if _, err := r.exec(t.body, root); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

// variables returns the names that the template starts with.
func (in *Input) variables() map[string]any {
	vars := map[string]any{
		"messages":              in.Messages,
		"tools":                 noneIfNil(in.Tools),
		"documents":             noneIfNil(in.Documents),
		"add_generation_prompt": in.AddGenerationPrompt,
		"bos_token":             in.BOS,
		"eos_token":             in.EOS,
	}
	for name, v := range in.Extra {
		vars[name] = v
	}
	return vars
}

// noneIfNil turns an absent list into none.
func noneIfNil(items []any) any {
	if items == nil {
		return nil
	}
	return items
}
