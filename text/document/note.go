package document

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Note is what a note in Markdown, as Obsidian and others write it, tells about itself.
type Note struct {
	Title    string // of the front matter, else the first heading of the first level; "" without one
	Aliases  []string
	Tags     []string // without #, in the order of their first use
	Links    []Link
	Headings []Heading
	Body     int // where the text begins, behind the front matter
}

// Link is a link of a note: [[Target#Heading|Text]], [Text](Target) or, with an exclamation mark before it, an embed.
type Link struct {
	Target  string // a note or another file, as written; "" for the note itself
	Heading string // behind #, "" without one
	Text    string // what is shown, "" if that is the target
	Embed   bool
}

// Heading is a heading of a note.
type Heading struct {
	Level int // 1 to 6
	Title string
	Start int // bytes from the beginning of the file
	above int // index of the heading that it is below; -1 for none
}

const (
	// maxFrontMatter is the largest front matter. A longer one is text.
	maxFrontMatter = 64 << 10
	// maxTags and maxAliases are the most of a note. All passages of the note are found by them, so that those of data that looks
	// like a note would take quadratic time. Further tags are words of their passages.
	maxTags    = 256
	maxAliases = 256
)

// ParseNote reads a note. It accepts any text: what it does not understand is text.
func ParseNote(text []byte) Note {
	n := Note{}
	matter, body := frontMatter(text)
	n.Body = body
	n.readMatter(matter)
	fenced, begin := false, true
	for at := body; at < len(text); {
		end := lineEnd(text, at)
		line := bytes.TrimRight(text[at:end], " \t\r\n")
		level, title := heading(text, line, end, fenced)
		if level > 0 && (line[0] == '#' || isUnderline(text, end) || begin) { // Title: and Subject: begin a note only
			n.addHeading(level, title, at)
		}
		if isFence(line) {
			fenced = !fenced
		} else if !fenced {
			n.readLine(line)
		}
		begin, at = begin && len(line) == 0, end
	}
	for _, h := range n.Headings {
		if n.Title == "" && h.Level == 1 {
			n.Title = h.Title
		}
	}
	return n
}

// addHeading adds a heading, which is below the last one of a lower level.
func (n *Note) addHeading(level int, title string, at int) {
	above := len(n.Headings) - 1
	for above >= 0 && n.Headings[above].Level >= level {
		above = n.Headings[above].above
	}
	n.Headings = append(n.Headings, Heading{level, title, at, above})
}

// Path returns the titles of the headings above an offset, the outermost one first.
func (n *Note) Path(at int) (titles []string) {
	i, _ := slices.BinarySearchFunc(n.Headings, at+1, func(h Heading, at int) int { return cmp.Compare(h.Start, at) })
	for i--; i >= 0; i = n.Headings[i].above {
		titles = append(titles, n.Headings[i].Title)
	}
	slices.Reverse(titles)
	return titles
}

// frontMatter returns the lines between --- and --- at the beginning of a note, and where the text begins.
func frontMatter(text []byte) (matter []byte, body int) {
	text, marked := bytes.CutPrefix(text, []byte("\ufeff"))
	skip := 0
	if marked {
		skip = len("\ufeff")
	}
	first := lineEnd(text, 0)
	if string(bytes.TrimRight(text[:first], " \t\r\n")) != "---" {
		return nil, skip
	}
	for at := first; at < min(len(text), maxFrontMatter); {
		end := lineEnd(text, at)
		if line := string(bytes.TrimRight(text[at:end], " \t\r\n")); line == "---" || line == "..." {
			return text[first:at], skip + end
		}
		at = end
	}
	return nil, skip
}

// readMatter reads title, aliases and tags of the front matter, which is YAML: "key: value", "key: [a, b]", or items
// on lines of their own behind dashes.
func (n *Note) readMatter(matter []byte) {
	key := ""
	for line := range strings.Lines(string(matter)) {
		line = strings.TrimRight(line, " \t\r\n")
		body := strings.TrimLeft(line, " \t")
		if item, is := strings.CutPrefix(body, "-"); is && (item == "" || item[0] == ' ') {
			n.setMatter(key, []string{item})
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || body != line {
			continue
		}
		key = strings.ToLower(strings.TrimSpace(name))
		value = strings.TrimSpace(value)
		values := []string{value}
		if list, is := strings.CutPrefix(value, "["); is {
			values = splitList(strings.TrimSuffix(list, "]"))
		} else if strings.HasPrefix(key, "tag") || strings.HasPrefix(key, "alias") {
			values = splitList(value)
		}
		n.setMatter(key, values)
	}
}

// splitList divides a list of YAML at commas outside of quotes.
func splitList(text string) (items []string) {
	quote, from := rune(0), 0
	for i, c := range text {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == ',':
			items, from = append(items, text[from:i]), i+1
		}
	}
	return append(items, text[from:])
}

// setMatter adds values of a key of the front matter.
func (n *Note) setMatter(key string, values []string) {
	for _, value := range values {
		value = strings.TrimSpace(value)
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		if value == "" || value == "|" || value == ">" {
			continue
		}
		switch key {
		case "title":
			n.Title = value
		case "alias", "aliases":
			if len(n.Aliases) < maxAliases {
				n.Aliases = append(n.Aliases, value)
			}
		case "tag", "tags":
			for tag := range strings.FieldsSeq(value) {
				n.addTag(strings.TrimPrefix(tag, "#"))
			}
		}
	}
}

// addTag adds a tag once.
func (n *Note) addTag(tag string) {
	if tag = strings.Trim(tag, "/"); tag != "" && len(n.Tags) < maxTags && !slices.Contains(n.Tags, tag) {
		n.Tags = append(n.Tags, tag)
	}
}

// readLine adds the tags and links of a line, outside of code between backquotes.
func (n *Note) readLine(line []byte) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '`':
			if end := bytes.IndexByte(line[i+1:], '`'); end >= 0 {
				i += end + 1
			}
		case '#':
			if i == 0 || line[i-1] == ' ' || line[i-1] == '\t' || line[i-1] == '(' || line[i-1] == ',' {
				i += n.readTag(line[i+1:])
			}
		case '[':
			i += n.readLink(line[i:], i > 0 && line[i-1] == '!')
		}
	}
}

// readTag adds the tag at the beginning of text and returns its length. A number is no tag.
func (n *Note) readTag(text []byte) int {
	end, letters := 0, false
	for end < len(text) {
		c, size := utf8.DecodeRune(text[end:])
		if !unicode.IsLetter(c) && !unicode.IsMark(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-/", c) {
			break
		}
		letters = letters || !unicode.IsDigit(c)
		end += size
	}
	if letters {
		n.addTag(string(text[:end]))
	}
	return end
}

// maxLink is the longest link. A line of brackets that do not close would take quadratic time.
const maxLink = 4 << 10

// readLink adds the link at the beginning of text, which is a bracket, and returns how many bytes to skip.
func (n *Note) readLink(text []byte, embed bool) int {
	if inner, is := bytes.CutPrefix(text, []byte("[[")); is {
		end := bytes.Index(inner[:min(len(inner), maxLink)], []byte("]]"))
		if end < 0 {
			return 0
		}
		target, shown, _ := strings.Cut(string(inner[:end]), "|")
		n.addLink(target, shown, embed)
		return end + 3
	}
	text = text[:min(len(text), maxLink)]
	mid := bytes.Index(text, []byte("]("))
	if mid < 0 || bytes.IndexByte(text[1:mid], '[') >= 0 {
		return 0
	}
	end := bytes.IndexByte(text[mid:], ')')
	if end < 0 {
		return 0
	}
	target := strings.TrimSpace(string(text[mid+2 : mid+end]))
	if target, _, _ = strings.Cut(target, ` "`); target != "" && !strings.Contains(target, "://") && !strings.HasPrefix(target, "mailto:") {
		target = strings.ReplaceAll(strings.Trim(target, "<>"), "%20", " ")
		n.addLink(target, string(text[1:mid]), embed)
	}
	return mid + end
}

// addLink adds a link.
func (n *Note) addLink(target, shown string, embed bool) {
	target, section, _ := strings.Cut(target, "#")
	n.Links = append(n.Links, Link{strings.TrimSpace(target), strings.TrimSpace(section), strings.TrimSpace(shown), embed})
}
