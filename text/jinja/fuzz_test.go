package jinja

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fuzzSeeds returns the templates of published models, the cases of the language, and the inputs that the fuzzer found.
func fuzzSeeds(tb testing.TB) (sources []string) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.jinja"))
	require.NoError(tb, err)
	for _, path := range paths {
		source, err := os.ReadFile(path)
		require.NoError(tb, err)
		sources = append(sources, string(source))
	}
	for _, c := range readLanguageCases(tb).Cases {
		sources = append(sources, c.Template)
	}
	paths, err = filepath.Glob(filepath.Join("testdata", "fuzz", "FuzzTemplate", "*"))
	require.NoError(tb, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(tb, err)
		_, value, found := strings.Cut(string(text), "\nstring(")
		require.True(tb, found, path)
		source, err := strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(value), ")"))
		require.NoError(tb, err, path)
		sources = append(sources, source)
	}
	return sources
}

// hangs is how long a rendering takes that never ends: sixty times the package's limit, for a slow and busy machine
// whose programs are instrumented.
const hangs = time.Minute

// FuzzTemplate parses and renders arbitrary sources. They must not panic, hang or exceed the
// limits on memory and output, must return only errors of the package's kinds, and must
// render the same result twice. TestMeasuredLimits bounds the time of the seeds.
func FuzzTemplate(f *testing.F) {
	for _, source := range fuzzSeeds(f) {
		f.Add(source)
	}
	in := inputOf(f, readLanguageCases(f).Variables["chat"])
	kinds := []error{ErrSyntax, ErrUnsupported, ErrLimit, ErrRaised, ErrRuntime}
	f.Fuzz(func(t *testing.T, source string) {
		var got string
		var err error
		watch := time.AfterFunc(hangs, func() { panic("the rendering does not end") })
		allocated := allocatedBy(func() { got, err = renderSource(source, in) })
		watch.Stop()
		require.Less(t, allocated, uint64(2*maxAlloc), "the values and their garbage")
		require.LessOrEqual(t, len(got), maxOutput)
		if err != nil {
			known := false
			for _, kind := range kinds {
				known = known || errors.Is(err, kind)
			}
			require.True(t, known, "%v", err)
		}
		again, errAgain := renderSource(source, in)
		require.Equal(t, got, again)
		require.Equal(t, err, errAgain)
	})
}

// FuzzConversation decodes arbitrary data. An accepted conversation must render.
func FuzzConversation(f *testing.F) {
	f.Add([]byte(`[{"role":"user","content":"Hi"}]`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"tools":[{"a":1.5e3}],"chat_template_kwargs":{"x":null}}`))
	f.Add([]byte(`[{"role":"user","content":"a","content":"b"}]`))
	f.Add([]byte(`[[[[[[`))
	tpl, err := Parse("{{ messages|tojson }}{{ tools }}{{ messages|length }}")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := DecodeConversation(data)
		if err != nil {
			require.ErrorIs(t, err, ErrInput)
			return
		}
		if _, err := tpl.Render(in); err != nil {
			require.True(t, errors.Is(err, ErrInput) || errors.Is(err, ErrLimit), "%v", err)
		}
	})
}
