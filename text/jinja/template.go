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

// Message is a message with a role and a text. A message with other fields, such as
// tool calls, is an *Object or a map[string]any.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Input holds the variables of one rendering. A value may be nil or have the type bool,
// int, int64, float64, string, json.Number, []any, map[string]any, *Object or Message.
type Input struct {
	Messages            []any
	Tools               []any // nil becomes none, as in transformers
	OmitTools           bool  // leave the variable tools undefined
	Documents           []any // nil becomes none
	AddGenerationPrompt bool
	BOS, EOS            string // the variables bos_token and eos_token
	// Now is the time for strftime_now. The zero value selects the time of the
	// rendering.
	Now time.Time
	// Extra holds further variables, such as enable_thinking. They override the
	// variables above.
	Extra map[string]any
	// Granted is the memory in bytes that the caller has reserved for the rendering. Render
	// calls Reserve for more before it takes more; an error of Reserve ends the rendering.
	// Without Reserve only the limits bound the memory.
	Granted int64
	Reserve func(bytes int64) error
}

// Parse parses a template. The error is an *Error with the line and the construct. Its
// kind is ErrSyntax, ErrUnsupported or ErrLimit.
func Parse(source string) (*Template, error) {
	body, err := parse(source)
	if err != nil {
		return nil, err
	}
	return &Template{body}, nil
}

// Render renders the template with the variables of in, which it does not modify. The
// limits bound its time to a second and its memory, whatever the template does. The
// error is an *Error of kind ErrRaised (the template rejects the conversation),
// ErrRuntime, ErrUnsupported, ErrLimit or ErrInput.
func (t *Template) Render(in Input) (string, error) {
	root := newScope(nil)
	cv := &converter{}
	vars := in.variables()
	// The sorted order makes the reported error deterministic.
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
		// A variable of the input overrides a global function.
		if _, taken, _ := root.lookup(f.name); !taken {
			root.set(f.name, f)
		}
	}
	r := &renderer{meter: newMeter(cv.size, &in), root: root, out: &strings.Builder{}, filters: filters, tests: tests}
	if _, err := r.exec(t.body, root); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

// variables returns the global variables of the template.
func (in *Input) variables() map[string]any {
	vars := map[string]any{
		"messages":              in.Messages,
		"tools":                 noneIfNil(in.Tools),
		"documents":             noneIfNil(in.Documents),
		"add_generation_prompt": in.AddGenerationPrompt,
		"bos_token":             in.BOS,
		"eos_token":             in.EOS,
	}
	if in.OmitTools {
		delete(vars, "tools")
	}
	for name, v := range in.Extra {
		vars[name] = v
	}
	return vars
}

// noneIfNil converts a nil slice to nil, which templates see as none.
func noneIfNil(items []any) any {
	if items == nil {
		return nil
	}
	return items
}
