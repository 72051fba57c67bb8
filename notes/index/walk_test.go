package index

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// writeTree creates files below a new directory.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o700))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
	}
	return dir
}

// TestFilesLeavesOutWhatIsIgnored lists a vault with hidden files, .gitignore files and Obsidian's settings.
func TestFilesLeavesOutWhatIsIgnored(t *testing.T) {
	dir := writeTree(t, map[string]string{
		"a.md": "", "b.MD": "", "c.txt": "", "d.markdown": "", "e.pdf": "", ".hidden.md": "",
		".obsidian/app.json": `{"userIgnoreFilters": ["Archive/", "/draft-\\d+/", "single.md", "", "/[/"], "x": 1}`, ".obsidian/x.md": "", ".trash/x.md": "",
		"Archive/x.md": "", "Archived/x.md": "", "draft-12.md": "", "draft-x.md": "", "single.md": "",
		".gitignore":            "# comment\n*.tmp.md\n/build/\nlogs/**\n!logs/keep.md\nsecret[0-9].md\ntrailing.md  \ndeep/**/skip.md\nnode_modules/\r\n[\n\\#odd.md\n",
		"x.tmp.md":              "",
		"sub/y.tmp.md":          "",
		"build/x.md":            "",
		"sub/build/x.md":        "",
		"logs/a.md":             "",
		"logs/keep.md":          "",
		"secret1.md":            "",
		"secretx.md":            "",
		"trailing.md":           "",
		"deep/a/b/skip.md":      "",
		"deep/skip.md":          "",
		"deep/keep.md":          "",
		"sub/node_modules/x.md": "",
		"#odd.md":               "",
		"sub/.gitignore":        "inner.md\n!y.tmp.md\n",
		"sub/inner.md":          "",
		"inner.md":              "",
	})
	var reports []string
	files, err := OpenTree(dir).Files(func(text string) { reports = append(reports, text) })
	require.Len(t, reports, 1)
	require.Contains(t, reports[0], `.obsidian/app.json: the excluded files "/[/" are notes too`)
	require.NoError(t, err)
	require.Equal(t, []string{
		"Archived/x.md", "a.md", "b.MD", "c.txt", "d.markdown", "deep/keep.md", "draft-x.md", "inner.md", "logs/keep.md", "secretx.md", "sub/build/x.md", "sub/y.tmp.md",
	}, files)
}

// TestSettingsThatAreNotUnderstoodAreReported lists vaults whose settings cannot be read or exclude more than RE2 can say.
func TestSettingsThatAreNotUnderstoodAreReported(t *testing.T) {
	for settings, want := range map[string]string{
		"{": "cannot be read", `{"userIgnoreFilters": "Archive/"}`: "cannot be read", `{"userIgnoreFilters": ["/(?!x)/"]}`: `"/(?!x)/" are notes too`,
		`{"userIgnoreFilters": ["` + strings.Repeat("a", maxPattern+1) + `"]}`: "longer than", strings.Repeat(" ", maxSettings+1): "exclude are notes too",
		`{"userIgnoreFilters": null}`: "", "\ufeff{}": "",
	} {
		var reports []string
		files, err := OpenTree(writeTree(t, map[string]string{"a.md": "", ".obsidian/app.json": settings})).Files(func(text string) { reports = append(reports, text) })
		require.NoError(t, err)
		require.Equal(t, []string{"a.md"}, files)
		require.Len(t, reports, min(1, len(want)), "%.60s", settings)
		require.Contains(t, strings.Join(reports, ""), want)
	}
}

// TestIgnoreFilesMayBeginWithAMark reads a .gitignore file with a byte order mark.
func TestIgnoreFilesMayBeginWithAMark(t *testing.T) {
	files, err := OpenTree(writeTree(t, map[string]string{"a.md": "", "b.md": "", ".gitignore": "\ufeffa.md\r\n"})).Files(func(text string) { t.Error(text) })
	require.NoError(t, err)
	require.Equal(t, []string{"b.md"}, files)
}

// TestLinksOutOfTheTreeAreNotFollowed makes links to a file and a directory outside, and one inside.
func TestLinksOutOfTheTreeAreNotFollowed(t *testing.T) {
	outside := writeTree(t, map[string]string{"secret.md": "secret", "sub/secret.md": "secret"})
	dir := writeTree(t, map[string]string{"a.md": "text"})
	for link, target := range map[string]string{"file.md": filepath.Join(outside, "secret.md"), "dir": outside, "up": "..", "inside.md": "a.md"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skipf("symbolic links cannot be made here: %v", err)
		}
	}
	tree := OpenTree(dir)
	files, err := tree.Files(func(string) {})
	require.NoError(t, err)
	require.Equal(t, []string{"a.md", "file.md", "inside.md"}, files)
	_, err = tree.Read("file.md")
	require.ErrorIs(t, err, vfs.ErrEscapes)
	text, err := tree.Read("inside.md")
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	_, err = tree.Read("dir/secret.md")
	require.ErrorIs(t, err, vfs.ErrEscapes)
	_, err = OpenTree(filepath.Join(dir, "none")).Files(func(string) {})
	require.True(t, IsMissing(err))
	_, err = tree.Read("none.md")
	require.True(t, IsMissing(err))
}
