package constrain

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// suiteGroup is a schema of JSON-Schema-Test-Suite with its cases.
type suiteGroup struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

// suiteCount counts cases.
type suiteCount struct {
	agree, disagree int
	unwritten       map[string]int // valid cases that no answer has, by file
	refused         map[string]int // cases of schemas that are refused, by keyword
}

// TestSuite compares the languages of schemas with the public JSON-Schema-Test-Suite, whose folder tests/draft2020-12
// LLMRUN_SCHEMA_SUITE names; scripts/schema-suite.sh fetches it. A case agrees if its value can be written exactly if it is valid: with
// its properties in some order, each string and each number in the one way that answers have. What is written must be valid. Read
// as the specification does, all that is valid must also be written, except that formats are checked, and have languages that
// every validator agrees on. A schema that is not supported must be refused with the path of a keyword that it has.
func TestSuite(t *testing.T) {
	dir := os.Getenv("LLMRUN_SCHEMA_SUITE")
	if dir == "" {
		t.Skip("LLMRUN_SCHEMA_SUITE names no folder; scripts/schema-suite.sh runs this test")
	}
	for _, open := range []bool{true, false} {
		total := suiteCount{unwritten: map[string]int{}, refused: map[string]int{}}
		var files []string
		for _, pattern := range []string{"*.json", "optional/*.json", "optional/format/*.json"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			require.NoError(t, err)
			files = append(files, found...)
		}
		require.NotEmpty(t, files, "%s has no cases", dir)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var groups []suiteGroup
			require.NoError(t, json.Unmarshal(text, &groups))
			name, err := filepath.Rel(dir, file)
			require.NoError(t, err)
			for i := range groups {
				checkGroup(t, filepath.ToSlash(name), &groups[i], open, &total)
			}
		}
		t.Logf("SchemaOptions.Open %v: %d cases agree, %d disagree; %d are valid and not written: %v; %d are refused: %v",
			open, total.agree, total.disagree, sum(total.unwritten), total.unwritten, sum(total.refused), total.refused)
		require.Greater(t, total.agree, 800)
		require.Zero(t, total.disagree)
		for file := range total.unwritten {
			require.True(t, !open || strings.Contains(file, "format"), "%s has valid cases that are not written", file)
		}
	}
}

func sum(counts map[string]int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

// checkGroup compares the cases of a schema.
func checkGroup(t *testing.T, file string, group *suiteGroup, open bool, total *suiteCount) {
	t.Helper()
	g, err := Schema(group.Schema, SchemaOptions{Open: open})
	var reason *SchemaError
	switch {
	case errors.As(err, &reason):
		keyword := keywordOf(reason.Path)
		if !strings.Contains(string(group.Schema), `"`+keyword+`"`) {
			t.Errorf("%s: %s: the error names no keyword of the schema: %v", file, group.Description, err)
		}
		total.refused[keyword] += len(group.Tests)
		return
	case err != nil && strings.Contains(err.Error(), "no finite text"): // no value is valid
	case err != nil:
		t.Errorf("%s: %s: %v", file, group.Description, err)
		return
	}
	for _, c := range group.Tests {
		v, parsed := parseJSON(c.Data, nil)
		require.NoError(t, parsed)
		writes := err == nil && slices.ContainsFunc(spellings(v, 720), func(text string) bool {
			ok, err := g.Matches(text)
			require.NoError(t, err)
			return ok
		})
		switch {
		case writes == c.Valid:
			total.agree++
		case writes:
			total.disagree++
			t.Errorf("%s: %s: %s: %s is written and not valid in %s", file, group.Description, c.Description, c.Data, group.Schema)
		default:
			total.unwritten[file]++
			if testing.Verbose() {
				t.Logf("Open %v: %s: %s: %s: %s is valid and not written", open, file, group.Description, c.Description, c.Data)
			}
		}
	}
}

// keywordOf returns the last keyword of a path, behind which the index of a schema may stand.
func keywordOf(path string) string {
	names := strings.Split(path, "/")
	for _, name := range slices.Backward(names) {
		if strings.Trim(name, "0123456789") != "" {
			return strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		}
	}
	return path
}

// spellings returns a value with the properties of its objects in every order, at most most of them.
func spellings(v *value, most int) []string {
	parts := [][]string{}
	switch v.kind {
	case jsonArray:
		for _, item := range v.items {
			parts = append(parts, spellings(item, most))
		}
		return joinParts("[", "]", parts, most)
	case jsonObject:
		for _, m := range v.members {
			inner := spellings(m.value, most)
			for i := range inner {
				inner[i] = quote(m.name) + ":" + inner[i]
			}
			parts = append(parts, inner)
		}
		var all []string
		permute(parts, 0, func() bool {
			all = append(all, joinParts("{", "}", parts, most)...)
			return len(all) < most
		})
		return all
	}
	return []string{v.String()}
}

// permute calls do with the parts in every order, until it returns false.
func permute(parts [][]string, from int, do func() bool) bool {
	if from >= len(parts)-1 {
		return do()
	}
	for i := from; i < len(parts); i++ {
		parts[from], parts[i] = parts[i], parts[from]
		more := permute(parts, from+1, do)
		parts[from], parts[i] = parts[i], parts[from]
		if !more {
			return false
		}
	}
	return true
}

// joinParts returns all ways to choose one text of each part, between two marks.
func joinParts(begin, end string, parts [][]string, most int) []string {
	all := []string{""}
	for i, part := range parts {
		var next []string
		for _, before := range all {
			for _, text := range part {
				if i > 0 {
					text = "," + text
				}
				if len(next) < most {
					next = append(next, before+text)
				}
			}
		}
		all = next
	}
	for i := range all {
		all[i] = begin + all[i] + end
	}
	return all
}
