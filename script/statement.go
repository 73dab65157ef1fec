package script

import (
	"strconv"
	"strings"
)

// statement is a statement that is being read.
type statement struct {
	text, sql strings.Builder // as written, and with parameters
	line      int             // of its first token
	words     []string        // bare words at its beginning, at most 3
	bare      bool            // nothing but words so far
	params    []int           // slots, that of ?1 first
	numbers   map[int]int     // slot to number
	space     bool            // space is due before the next token
}

func (s *statement) empty() bool { return s.text.Len() == 0 }

// word returns the nth of the words at the beginning in capitals, "" if there is
// none.
func (s *statement) word(n int) string {
	if n < len(s.words) {
		return strings.ToUpper(s.words[n])
	}
	return ""
}

// put appends a token: text as written, sql as it is to be run.
func (s *statement) put(line int, text, sql string) {
	if s.empty() {
		s.line = line
	} else if s.space {
		s.text.WriteByte(' ')
		s.sql.WriteByte(' ')
	}
	s.space = false
	s.text.WriteString(text)
	s.sql.WriteString(sql)
}

// putWord appends a bare word.
func (s *statement) putWord(line int, word string) {
	if s.bare && len(s.words) < 3 {
		s.words = append(s.words, word)
	}
	s.put(line, word, word)
}

// putVariable appends a variable as a parameter; the same variable is the same
// parameter again.
func (s *statement) putVariable(line, slot int, name string) {
	number, ok := s.numbers[slot]
	if !ok {
		s.params = append(s.params, slot)
		number = len(s.params)
		s.numbers[slot] = number
	}
	s.put(line, ":"+name, "?"+strconv.Itoa(number))
}

// nameStart and nameByte say which bytes a name may have, as in pgbench: those of a
// letter outside of ASCII count as letters.
func nameStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

func nameByte(c byte) bool { return nameStart(c) || digit(c) }

func digit(c byte) bool { return c >= '0' && c <= '9' }

func isSpace(c byte) bool { return strings.IndexByte(" \t\n\r\f\v", c) >= 0 }

// nameAt returns the name that begins at pos, "" if none does.
func nameAt(text string, pos int) string {
	if pos >= len(text) || !nameStart(text[pos]) {
		return ""
	}
	end := pos + 1
	for end < len(text) && nameByte(text[end]) {
		end++
	}
	return text[pos:end]
}

// advance moves over the next n bytes and returns them.
func (p *parser) advance(n int) string {
	part := p.text[p.pos : p.pos+n]
	p.pos += n
	p.line += strings.Count(part, "\n")
	return part
}

// scanStatement reads to the end of a statement: behind its semicolon, in front of
// a meta command's backslash, or the end of the text.
func (p *parser) scanStatement() (*statement, error) {
	stmt := &statement{bare: true, numbers: map[int]int{}}
	for p.pos < len(p.text) {
		rest := p.text[p.pos:]
		switch {
		case rest[0] == ';':
			p.advance(1)
			return stmt, nil
		case strings.HasPrefix(rest, `\;`):
			p.advance(2)
			return stmt, nil
		case strings.HasPrefix(rest, `\:`):
			return nil, p.errorf(`\: is not supported: %s`, colonAdvice)
		case rest[0] == '\\':
			return stmt, nil
		default:
			if err := p.scanToken(stmt, rest); err != nil {
				return nil, err
			}
		}
	}
	return stmt, nil
}

// scanToken reads one token, space or comment.
func (p *parser) scanToken(stmt *statement, rest string) error {
	line, c := p.line, rest[0]
	switch {
	case isSpace(c):
		p.advance(1)
		stmt.space = true
		return nil
	case strings.HasPrefix(rest, "--"):
		end := strings.IndexByte(rest, '\n')
		if end < 0 {
			end = len(rest)
		}
		p.advance(end)
		stmt.space = true
		return nil
	case strings.HasPrefix(rest, "/*"):
		stmt.space = true
		return p.skipComment()
	case nameStart(c):
		word := p.advance(wordLen(rest))
		if strings.EqualFold(word, "e") && p.pos < len(p.text) && p.text[p.pos] == '\'' {
			return p.errorf("E'..' is not supported: write '..', where a backslash stands for itself")
		}
		stmt.putWord(line, word)
		return nil
	}
	stmt.bare = false
	switch {
	case digit(c):
		number := p.advance(wordLen(rest))
		stmt.put(line, number, number)
		return nil
	case strings.IndexByte("'\"`[", c) >= 0:
		return p.scanQuoted(stmt, c)
	case c == '$':
		return p.scanDollar(stmt)
	case c == ':':
		return p.scanColon(stmt, rest)
	case c == '?' || c == '@' || c == '#':
		return p.errorf("%q is not supported outside of literals: write :name for a parameter", c)
	}
	token := p.advance(1)
	stmt.put(line, token, token)
	return nil
}

// wordLen returns how long the word or number at the beginning is.
func wordLen(text string) int {
	n := 1
	for n < len(text) && (nameByte(text[n]) || text[n] == '$') {
		n++
	}
	return n
}

// skipComment skips a comment; comments nest, as in PostgreSQL.
func (p *parser) skipComment() error {
	line, depth := p.line, 0
	for p.pos < len(p.text) {
		switch rest := p.text[p.pos:]; {
		case strings.HasPrefix(rest, "/*"):
			p.advance(2)
			depth++
		case strings.HasPrefix(rest, "*/"):
			p.advance(2)
			if depth--; depth == 0 {
				return nil
			}
		default:
			p.advance(1)
		}
	}
	return p.errorAt(line, "a comment that does not end: */ is missing")
}

// scanQuoted reads a literal or a quoted name. A doubled quote reads as the end of
// one and the beginning of the next, which comes to the same.
func (p *parser) scanQuoted(stmt *statement, open byte) error {
	line, closing := p.line, open
	if open == '[' {
		closing = ']'
	}
	n := strings.IndexByte(p.text[p.pos+1:], closing)
	if n < 0 {
		return p.errorf("a quote that does not end: %c is missing", closing)
	}
	quoted := p.advance(n + 2)
	stmt.put(line, quoted, quoted)
	return nil
}

// scanDollar reads a literal in dollar quotes, $$..$$ or $tag$..$tag$, and makes it
// one in single quotes, which every database reads.
func (p *parser) scanDollar(stmt *statement) error {
	line := p.line
	tag := "$" + nameAt(p.text, p.pos+1) + "$"
	if !strings.HasPrefix(p.text[p.pos:], tag) {
		return p.errorf("'$' is not supported outside of literals: write :name for a parameter")
	}
	n := strings.Index(p.text[p.pos+len(tag):], tag)
	if n < 0 {
		return p.errorf("a quote that does not end: %s is missing", tag)
	}
	p.advance(len(tag))
	literal := "'" + strings.ReplaceAll(p.advance(n), "'", "''") + "'"
	p.advance(len(tag))
	stmt.put(line, literal, literal)
	return nil
}

// colonAdvice is what to do about a colon that is not that of a variable. SQLite
// takes some of them for parameters of its own (:a, :34, :::b), which nothing would
// bind, and none for anything else.
const colonAdvice = "write :name for a variable, CAST(x AS type) for a cast, and other colons in quotes"

// scanColon reads a variable.
func (p *parser) scanColon(stmt *statement, rest string) error {
	name := nameAt(rest, 1)
	if name == "" {
		return p.errorf("':' without the name of a variable is not supported outside of literals: %s", colonAdvice)
	}
	line := p.line
	p.advance(1 + len(name))
	stmt.putVariable(line, p.slot(name), name)
	return nil
}
