package index

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// An ignoreRule is a line of a .gitignore file.
type ignoreRule struct {
	dir     string         // of the file, "." for the directory of the notes
	pattern *regexp.Regexp // of a path below dir
	negated bool           // the line takes back earlier ones
	dirOnly bool
}

// maxPattern is the longest pattern that is read.
const maxPattern = 1000

// parseIgnore reads the .gitignore file of a directory. Lines that are no pattern are left out.
func parseIgnore(dir, text string) (rules []ignoreRule) {
	text = strings.TrimPrefix(text, "\ufeff") // as Windows editors begin files, and git accepts
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
			line = line[:len(line)-1]
		}
		r := ignoreRule{dir: dir}
		if line == "" || line[0] == '#' || len(line) > maxPattern {
			continue
		}
		line, r.negated = strings.CutPrefix(line, "!")
		line, r.dirOnly = strings.CutSuffix(line, "/")
		anchored := strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		prefix := "^"
		if !anchored {
			prefix = "(^|/)"
		}
		pattern, err := regexp.Compile(prefix + globPattern(line) + "$")
		if err != nil || line == "" {
			continue
		}
		r.pattern = pattern
		rules = append(rules, r)
	}
	return rules
}

// globPattern returns the regular expression of a pattern of .gitignore.
func globPattern(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch rest := glob[i:]; {
		case strings.HasPrefix(rest, "**/") && (i == 0 || glob[i-1] == '/'):
			b.WriteString("(.*/)?")
			i += 2
		case rest == "**" && (i == 0 || glob[i-1] == '/'):
			b.WriteString(".*")
			i++
		case rest[0] == '*':
			b.WriteString("[^/]*")
		case rest[0] == '?':
			b.WriteString("[^/]")
		case rest[0] == '[' && strings.IndexByte(rest[1:], ']') > 0:
			end := strings.IndexByte(rest[1:], ']') + 1
			class := strings.ReplaceAll(rest[1:end], `\`, `\\`)
			if strings.HasPrefix(class, "!") {
				class = "^" + class[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(class, "[", `\[`) + "]")
			i += end
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
			i++
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
		}
	}
	return b.String()
}

// ignores reports whether the rules leave out a path below the directory of the notes. The last rule that matches
// decides.
func ignores(rules []ignoreRule, name string, isDir bool) bool {
	for i := len(rules) - 1; i >= 0; i-- {
		r := &rules[i]
		below := name
		if r.dir != "." {
			var inside bool
			if below, inside = strings.CutPrefix(name, r.dir+"/"); !inside {
				continue
			}
		}
		if (isDir || !r.dirOnly) && r.pattern.MatchString(below) {
			return !r.negated
		}
	}
	return false
}

// obsidianFile has Obsidian's settings of a vault.
const obsidianFile = ".obsidian/app.json"

// obsidianSettings are what .obsidian/app.json says about files that a search leaves out.
type obsidianSettings struct {
	// Filters are the beginnings of paths, or regular expressions between slashes.
	Filters []string `json:"userIgnoreFilters"`
}

// A pathFilter reports whether a path is left out.
type pathFilter func(name string) bool

// parseObsidian reads .obsidian/app.json. What it does not understand leaves nothing out, and is reported: the user wanted to
// leave files out.
func parseObsidian(data []byte, report func(text string)) (filters []pathFilter) {
	var settings obsidianSettings
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &settings); err != nil {
		report(fmt.Sprintf("%s cannot be read, so that the files that it excludes are notes too: %v", obsidianFile, err))
		return nil
	}
	for _, filter := range settings.Filters {
		if filter == "" {
			continue
		}
		if len(filter) > maxPattern {
			report(fmt.Sprintf("%s: the excluded files %.40q… are notes too: the pattern is longer than %d bytes", obsidianFile, filter, maxPattern))
			continue
		}
		if len(filter) > 2 && filter[0] == '/' && filter[len(filter)-1] == '/' {
			pattern, err := regexp.Compile(filter[1 : len(filter)-1])
			if err != nil {
				report(fmt.Sprintf("%s: the excluded files %q are notes too: %v; write the filter without it, or name a folder", obsidianFile, filter, err))
				continue
			}
			filters = append(filters, pattern.MatchString)
			continue
		}
		filters = append(filters, func(name string) bool {
			return strings.HasPrefix(name, filter) || name == path.Clean(filter)
		})
	}
	return filters
}
