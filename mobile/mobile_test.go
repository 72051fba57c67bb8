package mobile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// TestSignaturesAreBindable checks that exported methods take and return what generators of bindings accept: strings,
// numbers, bools, bytes, interfaces and pointers to types of this package, and an error at the end.
func TestSignaturesAreBindable(t *testing.T) {
	seen := 0
	check := func(f reflect.Type, first int) {
		seen++
		require.LessOrEqual(t, f.NumOut(), 2)
		for i := first; i < f.NumIn(); i++ {
			require.True(t, bindable(f.In(i)), "%v", f)
		}
		for i := range f.NumOut() {
			isError := f.Out(i) == reflect.TypeFor[error]()
			require.True(t, isError && i == f.NumOut()-1 || bindable(f.Out(i)), "%v", f)
		}
	}
	for _, function := range []any{OpenModel, OpenVault, OpenVaultWithEncoder} {
		check(reflect.TypeOf(function), 0)
	}
	for _, object := range []reflect.Type{reflect.TypeFor[*Model](), reflect.TypeFor[*Vault]()} {
		for i := range object.NumMethod() {
			check(object.Method(i).Type, 1)
		}
		require.Empty(t, exportedFields(object.Elem()))
	}
	for _, callback := range []reflect.Type{reflect.TypeFor[Listener](), reflect.TypeFor[Progress]()} {
		for i := range callback.NumMethod() {
			check(callback.Method(i).Type, 0)
		}
	}
	require.Equal(t, 3+5+4+2, seen)
	require.False(t, bindable(reflect.TypeFor[[]string]()))
	require.False(t, bindable(reflect.TypeFor[*llmrun.Engine]()))
}

func bindable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8
	case reflect.Interface:
		return t.PkgPath() == reflect.TypeFor[Model]().PkgPath()
	case reflect.Pointer:
		return t.Elem().PkgPath() == reflect.TypeFor[Model]().PkgPath()
	}
	return false
}

func exportedFields(t reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(t) {
		if field.IsExported() {
			names = append(names, field.Name)
		}
	}
	return names
}

// counter counts calls, and ends what calls it behind a number of them.
type counter struct{ calls, most int }

func (c *counter) OnText(string) bool { c.calls++; return c.calls < c.most }

func (c *counter) OnProgress(int, int) bool { c.calls++; return c.calls < c.most }

// vault opens a vault with two notes.
func vault(t *testing.T, model *Model) *Vault {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"fox.md": "The fox is called Ruby.", "jacket.md": "# The podcast\n2 March 2019\n\nKevin's jacket is pink."} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	v, err := OpenVault(dir, filepath.Join(t.TempDir(), "notes.index"), model, llmrun.NoLimit)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	return v
}

func TestVault(t *testing.T) {
	v := vault(t, nil)
	stopping := &counter{most: 1}
	n, err := v.Update(stopping)
	require.ErrorIs(t, err, errStopped)
	require.Equal(t, 1, n)
	n, err = v.Update(nil)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for range 2 {
		text, err := v.Search("ruby", 3)
		require.NoError(t, err)
		require.Regexp(t, `^\{"hits":\[\{"file":"fox.md","start":0,"end":23,"score":[0-9.]+,"text":"The fox is called Ruby."\}\]\}$`, text)
		require.NoError(t, v.Trim())
	}
	text, err := v.Search("zeppelin", 3)
	require.NoError(t, err)
	require.Equal(t, `{"hits":[]}`, text)
	_, err = OpenVault(filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "x"), nil, 1<<20)
	require.ErrorIs(t, err, llmrun.ErrBudget)
}

// TestVaultWithEncoder finds notes that have no word of the question, and stops while they are embedded.
func TestVaultWithEncoder(t *testing.T) {
	dir, file, models := t.TempDir(), filepath.Join(t.TempDir(), "notes.index"), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fox.md"), []byte("The fox is called Ruby."), 0o600))
	var encoders []*Model
	for seed := range uint64(2) {
		path := filepath.Join(models, fmt.Sprint(seed))
		require.NoError(t, hubmodel.Encoder{Seed: seed}.Write(path))
		m, err := OpenModel(path, "", llmrun.NoLimit)
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		encoders = append(encoders, m)
	}
	v, err := OpenVaultWithEncoder(dir, file, encoders[0], "model 0", false)
	require.NoError(t, err)
	n, err := v.Update(&counter{most: 2}) // the note, then the first report of passages
	require.ErrorIs(t, err, errStopped)
	require.Equal(t, 1, n)
	_, err = v.Update(nil)
	require.NoError(t, err)
	text, err := v.Search("zeppelin", 3)
	require.NoError(t, err)
	require.Contains(t, text, `"file":"fox.md"`)
	require.NoError(t, v.Close())
	_, err = OpenVaultWithEncoder(dir, file, encoders[1], "model 1", false)
	require.ErrorContains(t, err, "model 0")
	v, err = OpenVaultWithEncoder(dir, file, encoders[1], "model 1", true)
	require.NoError(t, err)
	require.NoError(t, v.Close())
	_, err = OpenVaultWithEncoder(dir, file, nil, "", false)
	require.ErrorContains(t, err, "OpenVault")
}

func TestModel(t *testing.T) {
	_, err := OpenModel(filepath.Join(t.TempDir(), "none.gguf"), "", 0)
	require.ErrorContains(t, err, "none.gguf")
	if testing.Short() {
		t.Skip("runs the bundled model")
	}
	m, err := OpenModel(filepath.Join(testutil.Root(t), "cmd", "llmrun", "bundled", "model.pack"), "", llmrun.NoLimit)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	v := vault(t, m)
	_, err = v.Update(nil)
	require.NoError(t, err)
	listener := &counter{most: 1000}
	text, err := m.Ask(v, "What color is Kevin's jacket?", 40, listener)
	require.NoError(t, err)
	var got struct {
		Answer  string
		Sources []string
	}
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Equal(t, []string{"jacket.md"}, got.Sources)
	require.Positive(t, listener.calls)
	_, err = m.Ask(nil, "What color is Kevin's jacket?", 40, nil)
	require.ErrorContains(t, err, "the vault is null")
	stopping := &counter{most: 2}
	_, err = m.Generate("Tell me a story.", 100, stopping)
	require.ErrorIs(t, err, errStopped)
	require.Equal(t, 2, stopping.calls)
	_, err = m.Trim(4)
	require.Error(t, err)
	_, err = m.Trim(2)
	require.NoError(t, err)
	require.NoError(t, v.Close())
}
