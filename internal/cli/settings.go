package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/internal/toml"
)

// A setting is a flag that is set every day, and then stands in a file or in a variable of the environment. The command line
// comes first, then the environment, then the table of the command in the file, then the beginning of the file. Which flags are
// settings is said where they are declared, with FlagSet.Setting.

// Settings says where a program finds its settings.
type Settings struct {
	Prefix  string // of the variables: the setting cache-dir is PREFIXCACHE_DIR
	Command string // the command that shows settings
	// Lookup reads the environment. A variable that is empty is not set.
	Lookup func(name string) string
	// File returns the path of the file. It must be there if it is required.
	File func() (path string, required bool, err error)
}

// variable returns the name of the variable of a setting.
func (s *Settings) variable(name string) string {
	return s.Prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// A Setting is a flag that is also a setting.
type Setting struct {
	name   string
	help   flagHelp
	unless []string
	words  []string // by which errors name it, beside its flag
	preset *bool
	set    func(string) error
	value  settingValue // that was applied
}

// Setting makes a flag of the set a setting of that name.
func (f *FlagSet) Setting(name string) *Setting {
	help, known := f.find(name)
	if !known {
		panic("there is no flag " + name)
	}
	s := &Setting{name: name, help: help, set: f.Registry.Lookup(name).Value.Set}
	f.settings = append(f.settings, s)
	return s
}

// Unless names flags that go without the setting: it is ignored where one of them is given.
func (s *Setting) Unless(flags ...string) *Setting {
	s.unless = append(s.unless, flags...)
	return s
}

// Named adds words by which errors name what the setting sets.
func (s *Setting) Named(words ...string) *Setting {
	s.words = append(s.words, words...)
	return s
}

// Reports sets preset to whether the value comes from the settings, for commands that refuse what the user asks for now and pass
// over what the user wants in general.
func (s *Setting) Reports(preset *bool) *Setting {
	s.preset = preset
	return s
}

// Sets lets set take the value, for a flag whose own values have another form: it takes a text.
func (s *Setting) Sets(set func(string) error) *Setting {
	s.set, s.help.kind = set, toml.String
	return s
}

// noteGiven notes that the command line has the flag of that name.
func (f *FlagSet) noteGiven(name string) {
	f.given[name] = true
	for _, s := range f.settings {
		if s.preset != nil && slices.Contains(s.help.list, name) {
			*s.preset = false
		}
	}
}

// isGiven reports whether the command line has one of the flags.
func (f *FlagSet) isGiven(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return f.given[name] })
}

// A settingValue is the value of a setting, and where it comes from.
type settingValue struct {
	text  string
	kind  toml.Kind // of what is written in the file; "" in the environment
	where string    // the variable, or the file and the line; "" if it is not set
}

// settingsFile is what the file of settings says.
type settingsFile struct {
	path    string
	entries map[[2]string]toml.Entry // by table and key
}

// maxSettings is the most bytes of the file of settings.
const maxSettings = 64 << 10

// readSettings reads the file of settings, and checks all of it, also what is about other commands.
func (p *Program) readSettings() (*settingsFile, error) {
	path, required, _ := p.Settings.File() // an error means that the system has no directory for such files
	if path == "" {
		return &settingsFile{}, nil
	}
	f := &settingsFile{path: path, entries: map[[2]string]toml.Entry{}}
	text, err := readSettingsText(path)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the settings: %w; mend it, or name another file with %s", err, p.Settings.variable("config"))
	}
	entries, err := toml.Parse(text)
	var at *toml.Error
	if errors.As(err, &at) {
		return nil, p.settingsError(f.at(at.Line), at.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(entries) == 0 {
		return f, nil
	}
	known := p.settings()
	for _, e := range entries {
		err := p.checkSettingName(&e, known)
		if err == nil {
			i := slices.IndexFunc(known, func(s namedSetting) bool { return s.name == e.Key })
			err = known[i].setting.apply(settingValue{e.Text, e.Kind, f.at(e.Line)}) // to flags that no command gets
		}
		if err != nil {
			return nil, p.settingsError(f.at(e.Line), err.Error())
		}
		f.entries[[2]string{e.Table, e.Key}] = e
	}
	return f, nil
}

func readSettingsText(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxSettings+1))
	if err == nil && len(data) > maxSettings {
		err = fmt.Errorf("%s has more than %s", path, FormatBytes(maxSettings))
	}
	return string(data), err
}

// at names a line of the file.
func (f *settingsFile) at(line int) string { return fmt.Sprintf("%s, line %d", f.path, line) }

// settingsError is a usage error about settings.
func (p *Program) settingsError(where, message string) error {
	return &UsageError{Message: where + ": " + message, command: p.Settings.Command}
}

// settings returns the names of the settings of all commands, in the order of the help, with the commands that have them.
func (p *Program) settings() (all []namedSetting) {
	index := map[string]int{}
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			flags := c.Flags()
			for _, s := range flags.settings {
				i, known := index[s.name]
				if !known {
					i = len(all)
					index[s.name] = i
					all = append(all, namedSetting{name: s.name, setting: s})
				}
				all[i].commands = append(all[i].commands, c.Name)
			}
		}
	}
	return all
}

// A namedSetting is a setting with the commands that have it.
type namedSetting struct {
	name     string
	setting  *Setting // of the first command
	commands []string
}

// SettingVariables returns the variables of all settings.
func (p *Program) SettingVariables() (names []string) {
	for _, s := range p.settings() {
		names = append(names, p.Settings.variable(s.name))
	}
	return names
}

// checkSettingName refuses a key that is no setting, and a table that is no command with that setting.
func (p *Program) checkSettingName(e *toml.Entry, known []namedSetting) error {
	if e.Table != "" && p.Find(e.Table) == nil {
		message := fmt.Sprintf("[%s] names no command", e.Table)
		if near := Nearest(e.Table, p.Names()); near != "" {
			message += fmt.Sprintf("; did you mean [%s]?", near)
		}
		return errors.New(message)
	}
	var names, here []string
	for _, s := range known {
		if names = append(names, s.name); e.Table == "" || slices.Contains(s.commands, e.Table) {
			here = append(here, s.name)
		}
	}
	switch {
	case slices.Contains(here, e.Key):
		return nil
	case len(here) == 0:
		return fmt.Errorf("[%s] is a command without settings: remove %s", e.Table, e.Key)
	case slices.Contains(names, e.Key):
		return fmt.Errorf("%s is no setting of %s, which has %s", e.Key, e.Table, All(here))
	}
	message := fmt.Sprintf("there is no setting %q", e.Key)
	ours := ForeignFlags[e.Key]
	for _, s := range known {
		if slices.Contains(s.setting.help.list, e.Key) {
			ours = s.name
		}
	}
	near := Nearest(strings.ReplaceAll(e.Key, "_", "-"), here)
	switch {
	case slices.Contains(here, ours):
		message += "; here it is " + ours
	case p.hasFlag(e.Key):
		message += ": it is a flag for the command line alone"
	case near != "":
		message += fmt.Sprintf("; did you mean %q?", near)
	default:
		message += fmt.Sprintf("; %s %s lists them", p.Name, p.Settings.Command)
	}
	return errors.New(message)
}

// hasFlag reports whether a command has a flag of that name.
func (p *Program) hasFlag(name string) bool {
	for _, command := range p.Names() {
		if _, known := p.Find(command).Flags().find(name); known {
			return true
		}
	}
	return false
}

// find returns the value of a setting for a command; "" for commands that have no table.
func (p *Program) find(s *Setting, command string, file *settingsFile) settingValue {
	variable := p.Settings.variable(s.name)
	if text := p.Settings.Lookup(variable); text != "" {
		return settingValue{text, "", variable}
	}
	for _, table := range []string{command, ""} {
		if e, known := file.entries[[2]string{table, s.name}]; known {
			return settingValue{e.Text, e.Kind, file.at(e.Line)}
		}
	}
	return settingValue{}
}

// applySettings sets the flags that the command line does not have.
func (p *Program) applySettings(c *Command, flags *FlagSet) error {
	if p.Settings == nil || len(flags.settings) == 0 {
		return nil
	}
	file, err := p.readSettings()
	if err != nil {
		return err
	}
	for _, s := range flags.settings {
		value := p.find(s, c.Name, file)
		if value.where == "" || flags.isGiven(s.help.list...) || flags.isGiven(s.unless...) {
			continue
		}
		if err := s.apply(value); err != nil {
			return p.settingsError(value.where, err.Error())
		}
	}
	return nil
}

// apply sets the flag.
func (s *Setting) apply(v settingValue) error {
	text, err := s.read(v)
	if err == nil {
		err = s.set(text)
	}
	if err != nil {
		if v.kind != "" { // a line names the key; a variable does itself
			err = fmt.Errorf("%s: %w", s.name, err)
		}
		return err
	}
	s.value = v
	if s.preset != nil {
		*s.preset = true
	}
	return nil
}

// read returns the text that the flag gets.
func (s *Setting) read(v settingValue) (string, error) {
	isText, wantsText := v.kind == toml.String, s.help.kind == toml.String
	switch {
	case v.kind == "":
	case wantsText && !isText:
		return "", fmt.Errorf("must be text in quotes, as in %s = %q", s.name, v.text)
	case s.help.kind == toml.Boolean && v.kind != toml.Boolean:
		return "", fmt.Errorf("must be true or false without quotes, not %q", v.text)
	}
	if !s.help.isPath() {
		return v.text, nil
	}
	text := v.text
	if rest, inHome := strings.CutPrefix(text, "~/"); inHome { // which shells replace, and files have no shell
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("~ stands for the home directory: %w", err)
		}
		text = filepath.Join(home, rest)
	}
	if v.kind != "" && s.help.placeholder != "PATH" && text != "" && !filepath.IsAbs(text) {
		return "", fmt.Errorf("must be an absolute path or begin with ~/, not %q, which would be another file in each directory", v.text)
	}
	return text, nil
}

// isPath reports whether the value of a flag is the path of a file or directory. A PATH may also be a name.
func (f *flagHelp) isPath() bool {
	return slices.Contains([]string{"PATH", "FILE", "DIR"}, f.placeholder)
}

// explainSettings adds to an error which of the flags that it names were set by settings, because the command line does not show them.
func (f *FlagSet) explainSettings(err error) error {
	text := err.Error()
	var origins []string
	for _, s := range f.settings {
		if s.value.where == "" {
			continue
		}
		for _, name := range append(s.help.spelled(), s.words...) {
			if regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(name) + `($|[^\w-])`).MatchString(text) {
				origins = append(origins, fmt.Sprintf("%s comes from %s", s.help.spelled()[0], s.value.where))
				break
			}
		}
	}
	if len(origins) == 0 {
		return err
	}
	added := "; " + strings.Join(origins, ", ")
	var usage *UsageError
	if errors.As(err, &usage) {
		usage.Message += added
		return err
	}
	return fmt.Errorf("%w%s", err, added)
}

// A ShownSetting is a setting as it is in use.
type ShownSetting struct {
	Name     string   `json:"name"`
	Command  string   `json:"command"`  // whose table of the file this is about; "": all others
	Value    *string  `json:"value"`    // null: the default
	From     string   `json:"from"`     // environment, file or default
	Where    string   `json:"where"`    // the variable, or the file and the line
	Default  string   `json:"default"`  // in words; "": it depends
	Variable string   `json:"variable"` // of the environment
	Commands []string `json:"commands"` // that have it
}

// A SettingsReport lists the settings of a program.
type SettingsReport struct {
	File     string         `json:"file"`
	Exists   bool           `json:"exists"`
	Settings []ShownSetting `json:"settings"`
}

// SettingsFile returns the path of the file of settings.
func (p *Program) SettingsFile() (string, error) {
	path, _, err := p.Settings.File()
	return path, err
}

// ShowSettings returns all settings. It checks the value of each for every command that has it.
func (p *Program) ShowSettings() (*SettingsReport, error) {
	file, err := p.readSettings()
	if err != nil {
		return nil, err
	}
	if err := p.checkSettings(file); err != nil {
		return nil, err
	}
	r := &SettingsReport{File: file.path, Settings: []ShownSetting{}}
	_, err = os.Stat(file.path)
	r.Exists = err == nil
	for _, s := range p.settings() {
		for _, command := range append([]string{""}, s.commands...) {
			_, hasTable := file.entries[[2]string{command, s.name}]
			if command == "" || hasTable {
				r.Settings = append(r.Settings, p.show(&s, command, file))
			}
		}
	}
	return r, nil
}

// checkSettings applies the settings of every command.
func (p *Program) checkSettings(file *settingsFile) error {
	for _, command := range p.Names() {
		for _, s := range p.Find(command).Flags().settings {
			if value := p.find(s, command, file); value.where != "" {
				if err := s.apply(value); err != nil {
					return p.settingsError(value.where, err.Error())
				}
			}
		}
	}
	return nil
}

func (p *Program) show(s *namedSetting, command string, file *settingsFile) ShownSetting {
	value := p.find(s.setting, command, file)
	shown := ShownSetting{Name: s.name, Command: command, From: "default", Where: value.where, Default: p.complete(s.setting.help.defaultText()), Variable: p.Settings.variable(s.name), Commands: s.commands}
	if value.where != "" {
		shown.Value, shown.From = &value.text, "file"
		if value.where == shown.Variable {
			shown.From = "environment"
		}
	}
	return shown
}

// defaultText returns what the explanation of a flag says about its default.
func (f *flagHelp) defaultText() string {
	if f.kind == toml.Boolean {
		return "false"
	}
	at := strings.Index(strings.ToLower(f.usage), "default: ")
	if at < 0 {
		return ""
	}
	text := f.usage[at+len("default: "):]
	if end := strings.Index(text, ". "); end >= 0 {
		text = text[:end]
	}
	text, _, _ = strings.Cut(text, ";")
	return text
}

// widestDefault is the most columns of a default in words.
const widestDefault = 36

// Write prints the report for a person, on a terminal of that width; 0 columns are unknown.
func (r *SettingsReport) Write(w io.Writer, columns int) {
	state := ""
	switch {
	case r.File == "":
		state = "none: this system names no directory for it"
	case !r.Exists:
		state = " (not there)"
	}
	fmt.Fprintf(w, "file: %s%s\n\n", r.File, state)
	rows := [][3]string{{"setting", "value", "from"}}
	for _, s := range r.Settings {
		row := [3]string{s.Name, s.Default, s.From}
		if s.Command != "" {
			row[0] = s.Command + ": " + s.Name
		}
		switch {
		case s.Value != nil:
			row[1], row[2] = VisibleLine(*s.Value), s.Where
		case row[1] == "":
			row[1] = "–"
		case Cells(row[1]) > widestDefault:
			row[1] = cut(row[1], widestDefault)
			row[1] = row[1][:max(strings.LastIndexByte(row[1], ' '), 0)] + " …"
		}
		rows = append(rows, row)
	}
	var width [3]int
	for _, row := range rows {
		for i, text := range row {
			width[i] = max(width[i], Cells(text))
		}
	}
	if columns > 0 && width[0]+width[1]+width[2]+2*len("  ") > columns {
		writeNarrow(w, rows[1:], columns)
		return
	}
	pad := func(text string, width int) string { return text + strings.Repeat(" ", width-Cells(text)) }
	for _, row := range rows {
		fmt.Fprintf(w, "%s  %s  %s\n", pad(row[0], width[0]), pad(row[1], width[1]), row[2])
	}
}

// writeNarrow prints settings on a terminal that has no room for a table: the value stands below the name.
func writeNarrow(w io.Writer, rows [][3]string, columns int) {
	for _, row := range rows {
		fmt.Fprintln(w, row[0])
		for line := range strings.SplitSeq(wrap(row[1]+" ("+row[2]+")", columns-narrowColumn), "\n") {
			fmt.Fprintf(w, "%*s%s\n", narrowColumn, "", line)
		}
	}
}
