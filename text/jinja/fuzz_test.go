package jinja

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzTemplate parses and renders arbitrary sources. They must not panic or exceed the
// limits on time and output, must return only errors of the package's kinds, and must
// render the same result twice.
func FuzzTemplate(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.jinja"))
	require.NoError(f, err)
	for _, path := range paths {
		source, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(string(source))
	}
	cases := readLanguageCases(f)
	for _, c := range cases.Cases {
		f.Add(c.Template)
	}
	in := inputOf(f, cases.Variables["chat"])
	kinds := []error{ErrSyntax, ErrUnsupported, ErrLimit, ErrRaised, ErrRuntime}
	f.Fuzz(func(t *testing.T, source string) {
		start := time.Now()
		got, err := renderSource(source, in)
		// The limit of the package is one second. The instrumentation and the parallel
		// workers of the fuzzer slow a rendering down.
		require.Less(t, time.Since(start), 5*time.Second)
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
