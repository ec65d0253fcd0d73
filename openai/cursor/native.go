package cursor

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"drawbridge/openai/cursor/wire"
	"drawbridge/openai/upstream"
)

// meaning is what one of the service's own tools does, and what callers call theirs.
type meaning struct {
	names []string
	// needs are the roles of arguments without which a caller's tool is not of this meaning.
	needs []string
}

var meanings = map[string]meaning{
	"shell": {[]string{"bash", "shell", "run_command", "run_terminal_cmd", "execute_command", "terminal", "exec"}, []string{"command"}},
	"read":  {[]string{"read", "read_file", "view"}, []string{"path"}},
	"write": {[]string{"write", "write_file", "create_file", "write_to_file"}, []string{"path", "content"}},
	"ls":    {[]string{"list", "ls", "list_dir", "list_directory", "list_files"}, []string{"path"}},
	"grep":  {[]string{"grep", "search", "search_files", "grep_search"}, []string{"pattern"}},
	"glob":  {[]string{"glob", "find_files", "file_search", "glob_search"}, []string{"glob"}},
}

// roles are the names that callers give to an argument.
var roles = map[string][]string{
	"command":     {"command", "cmd"},
	"description": {"description", "explanation", "title"},
	"directory":   {"workdir", "cwd", "working_directory", "directory"},
	"path":        {"path", "filePath", "file_path", "target_file", "absolute_path", "filename", "dir"},
	"content":     {"content", "contents", "file_text", "text"},
	"pattern":     {"pattern", "query", "regex"},
	"include":     {"include", "glob"},
	"glob":        {"pattern", "glob", "glob_pattern"},
	"offset":      {"offset", "start_line"},
	"limit":       {"limit", "max_lines"},
}

// native turns a request for one of the service's own tools into a call of the caller's tool of the same meaning; nil where there is none.
func (t *turn) native(m *wire.ExecServerMessage) *call {
	switch ask := m.Message.(type) {
	case *wire.ExecServerMessage_ShellArgs:
		return t.mapped(m, "shell", shellArgs(ask.ShellArgs), shellAnswer(ask.ShellArgs))
	case *wire.ExecServerMessage_ShellStreamArgs:
		return t.mapped(m, "shell", shellArgs(ask.ShellStreamArgs), streamAnswer(ask.ShellStreamArgs))
	case *wire.ExecServerMessage_ReadArgs:
		return t.mapped(m, "read", readArgs(ask.ReadArgs), readAnswer(ask.ReadArgs))
	case *wire.ExecServerMessage_WriteArgs:
		if len(ask.WriteArgs.GetFileBytes()) > 0 {
			return nil // bytes are no text
		}
		return t.mapped(m, "write", map[string]any{"path": ask.WriteArgs.GetPath(), "content": ask.WriteArgs.GetFileText()}, writeAnswer(ask.WriteArgs))
	case *wire.ExecServerMessage_LsArgs:
		return t.mapped(m, "ls", map[string]any{"path": ask.LsArgs.GetPath()}, lsAnswer(ask.LsArgs))
	case *wire.ExecServerMessage_GrepArgs:
		g := ask.GrepArgs
		if g.GetPattern() == "" && g.GetGlob() != "" {
			return t.mapped(m, "glob", present(map[string]any{"glob": g.GetGlob(), "path": g.GetPath()}), grepAnswer(g))
		}
		return t.mapped(m, "grep", present(map[string]any{"pattern": g.GetPattern(), "path": g.GetPath(), "include": g.GetGlob()}), grepAnswer(g))
	}
	return nil
}

// present leaves out what the service did not say.
func present(args map[string]any) map[string]any {
	for key, v := range args {
		if v == "" {
			delete(args, key)
		}
	}
	return args
}

func shellArgs(a *wire.ShellArgs) map[string]any {
	about := a.GetDescription()
	if about == "" {
		about = "Run " + a.GetCommand()
	}
	return present(map[string]any{"command": a.GetCommand(), "directory": a.GetWorkingDirectory(), "description": about})
}

func readArgs(a *wire.ReadArgs) map[string]any {
	args := map[string]any{"path": a.GetPath()}
	if a.Offset != nil {
		args["offset"] = a.GetOffset()
	}
	if a.Limit != nil {
		args["limit"] = a.GetLimit()
	}
	return args
}

// mapped is the call of the first tool of the caller that has the meaning, and of whose required arguments none is unknown here.
func (t *turn) mapped(m *wire.ExecServerMessage, what string, args map[string]any, answer func(upstream.Result) []*wire.ExecClientMessage) *call {
	like := meanings[what]
	for _, name := range like.names {
		for _, tool := range t.plan.tools {
			if !strings.EqualFold(tool.GetToolName(), name) {
				continue
			}
			if filled := fill(tool, args, like.needs); filled != nil {
				return &call{id: m.GetId(), name: tool.GetToolName(), args: filled, answer: answer}
			}
		}
	}
	return nil
}

// fill writes the arguments under the names that a tool's schema has; nil where the tool wants something else.
func fill(tool *wire.McpToolDefinition, args map[string]any, needs []string) json.RawMessage {
	schema := tool.GetInputSchema().GetStructValue().GetFields()
	properties := schema["properties"].GetStructValue().GetFields()
	out, done := map[string]any{}, map[string]bool{}
	for role, value := range args {
		for _, name := range roles[role] {
			if of, has := properties[name]; has && out[name] == nil && takes(of, value) {
				out[name], done[role] = value, true
				break
			}
		}
	}
	for _, role := range needs {
		if !done[role] {
			return nil
		}
	}
	for _, name := range schema["required"].GetListValue().GetValues() {
		if _, has := out[name.GetStringValue()]; !has {
			return nil
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return raw
}

// takes reports whether a property has a type that fits a value; one without a type takes all.
func takes(property *structpb.Value, value any) bool {
	kind := property.GetStructValue().GetFields()["type"].GetStringValue()
	if _, text := value.(string); text {
		return kind == "" || kind == "string"
	}
	return kind == "" || kind == "integer" || kind == "number"
}

func one(m *wire.ExecClientMessage) []*wire.ExecClientMessage { return []*wire.ExecClientMessage{m} }

func shellAnswer(a *wire.ShellArgs) func(upstream.Result) []*wire.ExecClientMessage {
	return func(r upstream.Result) []*wire.ExecClientMessage {
		done := &wire.ShellOutcome{Command: a.GetCommand(), WorkingDirectory: a.GetWorkingDirectory(), Stdout: r.Text}
		result := &wire.ShellResult{Result: &wire.ShellResult_Success{Success: done}}
		if r.Failed {
			done.Stdout, done.Stderr, done.ExitCode = "", r.Text, 1
			result.Result = &wire.ShellResult_Failure{Failure: done}
		}
		return one(&wire.ExecClientMessage{Message: &wire.ExecClientMessage_ShellResult{ShellResult: result}})
	}
}

// streamAnswer is a shell's result where the service reads a stream: it begins, says something, and ends.
func streamAnswer(a *wire.ShellArgs) func(upstream.Result) []*wire.ExecClientMessage {
	return func(r upstream.Result) []*wire.ExecClientMessage {
		said := &wire.ShellStream{Event: &wire.ShellStream_Stdout{Stdout: &wire.ShellOutput{Data: r.Text}}}
		exit := &wire.ShellExit{Cwd: a.GetWorkingDirectory()}
		if r.Failed {
			said.Event, exit.Code = &wire.ShellStream_Stderr{Stderr: &wire.ShellOutput{Data: r.Text}}, 1
		}
		var out []*wire.ExecClientMessage
		for _, e := range []*wire.ShellStream{{Event: &wire.ShellStream_Start{Start: &wire.Empty{}}}, said, {Event: &wire.ShellStream_Exit{Exit: exit}}} {
			out = append(out, &wire.ExecClientMessage{Message: &wire.ExecClientMessage_ShellStream{ShellStream: e}})
		}
		return out
	}
}

func readAnswer(a *wire.ReadArgs) func(upstream.Result) []*wire.ExecClientMessage {
	return func(r upstream.Result) []*wire.ExecClientMessage {
		result := &wire.ReadResult{}
		switch {
		case r.Failed:
			result.Result = &wire.ReadResult_Error{Error: &wire.PathError{Path: a.GetPath(), Error: r.Text}}
		case len(r.Images) > 0 && len(r.Images[0].Data) > 0:
			data := r.Images[0].Data
			result.Result = &wire.ReadResult_Success{Success: &wire.ReadSuccess{Path: a.GetPath(), FileSize: int64(len(data)), Output: &wire.ReadSuccess_Data{Data: data}}}
		default:
			result.Result = &wire.ReadResult_Success{Success: &wire.ReadSuccess{Path: a.GetPath(), FileSize: int64(len(r.Text)), TotalLines: lines(r.Text), Output: &wire.ReadSuccess_Content{Content: r.Text}}}
		}
		return one(&wire.ExecClientMessage{Message: &wire.ExecClientMessage_ReadResult{ReadResult: result}})
	}
}

// lines counts as the vendor's client does: the pieces between line feeds.
func lines(text string) int32 { return int32(strings.Count(text, "\n") + 1) }

func writeAnswer(a *wire.WriteArgs) func(upstream.Result) []*wire.ExecClientMessage {
	return func(r upstream.Result) []*wire.ExecClientMessage {
		result := &wire.WriteResult{Result: &wire.WriteResult_Error{Error: &wire.PathError{Path: a.GetPath(), Error: r.Text}}}
		if text := a.GetFileText(); !r.Failed {
			done := &wire.WriteSuccess{Path: a.GetPath(), LinesCreated: lines(text), FileSize: int32(len(text))}
			if a.GetReturnFileContentAfterWrite() {
				done.FileContentAfterWrite = &text
			}
			result.Result = &wire.WriteResult_Success{Success: done}
		}
		return one(&wire.ExecClientMessage{Message: &wire.ExecClientMessage_WriteResult{WriteResult: result}})
	}
}

// lsAnswer makes a folder of a list: each line is a name, and one that ends with a slash is a folder.
func lsAnswer(a *wire.LsArgs) func(upstream.Result) []*wire.ExecClientMessage {
	return func(r upstream.Result) []*wire.ExecClientMessage {
		result := &wire.LsResult{Result: &wire.LsResult_Error{Error: &wire.PathError{Path: a.GetPath(), Error: r.Text}}}
		if !r.Failed {
			root := &wire.LsNode{AbsPath: a.GetPath(), ChildrenWereProcessed: true}
			for line := range strings.Lines(r.Text) {
				name := strings.TrimRight(line, "\r\n")
				switch folder, is := strings.CutSuffix(strings.TrimSpace(name), "/"); {
				case strings.TrimSpace(name) == "":
				case is:
					root.ChildrenDirs = append(root.ChildrenDirs, &wire.LsNode{AbsPath: path.Join(a.GetPath(), folder)})
				default:
					root.ChildrenFiles = append(root.ChildrenFiles, &wire.LsFile{Name: name})
				}
			}
			result.Result = &wire.LsResult_Success{Success: &wire.LsSuccess{DirectoryTreeRoot: root}}
		}
		return one(&wire.ExecClientMessage{Message: &wire.ExecClientMessage_LsResult{LsResult: result}})
	}
}

// grepAnswer makes what was found of the lines of a result: names of files, or lines as file:number:text.
func grepAnswer(a *wire.GrepArgs) func(upstream.Result) []*wire.ExecClientMessage {
	return func(r upstream.Result) []*wire.ExecClientMessage {
		result := &wire.GrepResult{Result: &wire.GrepResult_Error{Error: &wire.GrepError{Error: r.Text}}}
		if !r.Failed {
			mode := a.GetOutputMode()
			if mode == "" {
				mode = "files_with_matches"
				if a.GetPattern() != "" {
					mode = "content"
				}
			}
			found := &wire.GrepUnion{Result: &wire.GrepUnion_Content{Content: foundLines(r.Text)}}
			if mode != "content" {
				mode = "files_with_matches"
				files := slices.DeleteFunc(strings.Split(r.Text, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
				found.Result = &wire.GrepUnion_Files{Files: &wire.GrepFiles{Files: files, TotalFiles: int32(len(files))}}
			}
			where := a.GetPath()
			if where == "" {
				where = "."
			}
			result.Result = &wire.GrepResult_Success{Success: &wire.GrepSuccess{Pattern: a.GetPattern(), Path: where, OutputMode: mode, WorkspaceResults: map[string]*wire.GrepUnion{where: found}}}
		}
		return one(&wire.ExecClientMessage{Message: &wire.ExecClientMessage_GrepResult{GrepResult: result}})
	}
}

func foundLines(text string) *wire.GrepContent {
	out, files := &wire.GrepContent{}, map[string]*wire.GrepFile{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		file, number, content := "", 0, line
		if parts := strings.SplitN(line, ":", 3); len(parts) == 3 {
			if n, err := strconv.Atoi(parts[1]); err == nil && n > 0 {
				file, number, content = parts[0], n, parts[2]
			}
		}
		if files[file] == nil {
			files[file] = &wire.GrepFile{File: file}
			out.Matches = append(out.Matches, files[file])
		}
		files[file].Matches = append(files[file].Matches, &wire.GrepLine{LineNumber: int32(number), Content: content})
		out.TotalLines++
		out.TotalMatchedLines++
	}
	return out
}

const notHere = "this client runs no such tool; use the tools that it offers"

// refusal answers a request that nobody here runs, in the form that the service expects for it, and closes it. The context of the
// request is no refusal: it is what the service asks for before each turn.
func (t *turn) refusal(m *wire.ExecServerMessage) []*wire.AgentClientMessage {
	id, a := m.GetId(), &wire.ExecClientMessage{}
	shell := func(s *wire.ShellArgs) *wire.ShellRejected {
		return &wire.ShellRejected{Command: s.GetCommand(), WorkingDirectory: s.GetWorkingDirectory(), Reason: notHere}
	}
	at := func(p string) *wire.PathRejected { return &wire.PathRejected{Path: p, Reason: notHere} }
	switch ask := m.Message.(type) {
	case *wire.ExecServerMessage_RequestContextArgs:
		a.Message = &wire.ExecClientMessage_RequestContextResult{RequestContextResult: &wire.RequestContextResult{Success: &wire.RequestContextSuccess{RequestContext: t.plan.context()}}}
	case *wire.ExecServerMessage_McpStateExecArgs:
		server := &wire.McpStateServer{ServerName: provider, ServerIdentifier: provider, Tools: t.plan.tools}
		a.Message = &wire.ExecClientMessage_McpStateExecResult{McpStateExecResult: &wire.McpStateResult{Success: &wire.McpStateSuccess{Servers: []*wire.McpStateServer{server}}}}
	case *wire.ExecServerMessage_ShellArgs:
		a.Message = &wire.ExecClientMessage_ShellResult{ShellResult: &wire.ShellResult{Result: &wire.ShellResult_Rejected{Rejected: shell(ask.ShellArgs)}}}
	case *wire.ExecServerMessage_ShellStreamArgs:
		a.Message = &wire.ExecClientMessage_ShellStream{ShellStream: &wire.ShellStream{Event: &wire.ShellStream_Rejected{Rejected: shell(ask.ShellStreamArgs)}}}
	case *wire.ExecServerMessage_BackgroundShellSpawnArgs:
		a.Message = &wire.ExecClientMessage_BackgroundShellSpawnResult{BackgroundShellSpawnResult: &wire.BackgroundShellResult{Rejected: shell(ask.BackgroundShellSpawnArgs)}}
	case *wire.ExecServerMessage_WriteShellStdinArgs:
		a.Message = &wire.ExecClientMessage_WriteShellStdinResult{WriteShellStdinResult: &wire.WriteShellStdinResult{Error: &wire.GrepError{Error: notHere}}}
	case *wire.ExecServerMessage_ReadArgs:
		a.Message = &wire.ExecClientMessage_ReadResult{ReadResult: &wire.ReadResult{Result: &wire.ReadResult_Rejected{Rejected: at(ask.ReadArgs.GetPath())}}}
	case *wire.ExecServerMessage_RedactedReadArgs:
		a.Message = &wire.ExecClientMessage_RedactedReadResult{RedactedReadResult: &wire.ReadResult{Result: &wire.ReadResult_Rejected{Rejected: at(ask.RedactedReadArgs.GetPath())}}}
	case *wire.ExecServerMessage_WriteArgs:
		a.Message = &wire.ExecClientMessage_WriteResult{WriteResult: &wire.WriteResult{Result: &wire.WriteResult_Rejected{Rejected: at(ask.WriteArgs.GetPath())}}}
	case *wire.ExecServerMessage_DeleteArgs:
		a.Message = &wire.ExecClientMessage_DeleteResult{DeleteResult: &wire.DeleteResult{Result: &wire.DeleteResult_Rejected{Rejected: at(ask.DeleteArgs.GetPath())}}}
	case *wire.ExecServerMessage_LsArgs:
		a.Message = &wire.ExecClientMessage_LsResult{LsResult: &wire.LsResult{Result: &wire.LsResult_Rejected{Rejected: at(ask.LsArgs.GetPath())}}}
	case *wire.ExecServerMessage_GrepArgs:
		a.Message = &wire.ExecClientMessage_GrepResult{GrepResult: &wire.GrepResult{Result: &wire.GrepResult_Error{Error: &wire.GrepError{Error: notHere}}}}
	case *wire.ExecServerMessage_DiagnosticsArgs:
		a.Message = &wire.ExecClientMessage_DiagnosticsResult{DiagnosticsResult: &wire.DiagnosticsResult{Result: &wire.DiagnosticsResult_Rejected{Rejected: at(ask.DiagnosticsArgs.GetPath())}}}
	default:
		if a = unheard(m); a == nil {
			return []*wire.AgentClientMessage{thrown(id, fmt.Sprintf("this client does not know request %d", id)), closed(id)}
		}
	}
	return []*wire.AgentClientMessage{execMessage(id, a), closed(id)}
}

// unheard answers what asks for something that is not there: resources of servers, addresses, and what runs without a question. Nil is a request
// that this build does not know.
func unheard(m *wire.ExecServerMessage) *wire.ExecClientMessage {
	switch ask := m.Message.(type) {
	case *wire.ExecServerMessage_ListMcpResourcesExecArgs:
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_ListMcpResourcesExecResult{ListMcpResourcesExecResult: &wire.ListMcpResourcesResult{Success: &wire.Empty{}}}}
	case *wire.ExecServerMessage_ReadMcpResourceExecArgs:
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_ReadMcpResourceExecResult{ReadMcpResourceExecResult: &wire.ReadMcpResourceResult{
			Rejected: &wire.PathRejected{Path: ask.ReadMcpResourceExecArgs.GetUri(), Reason: notHere}}}}
	case *wire.ExecServerMessage_FetchArgs:
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_FetchResult{FetchResult: &wire.FetchResult{Result: &wire.FetchResult_Error{Error: &wire.FetchError{Url: ask.FetchArgs.GetUrl(), Error: notHere}}}}}
	case *wire.ExecServerMessage_ShellAllowlistPrecheckArgs:
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_ShellAllowlistPrecheckResult{ShellAllowlistPrecheckResult: &wire.Empty{}}}
	case *wire.ExecServerMessage_McpAllowlistPrecheckArgs:
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_McpAllowlistPrecheckResult{McpAllowlistPrecheckResult: &wire.Empty{}}}
	case *wire.ExecServerMessage_WebFetchAllowlistPrecheckArgs:
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_WebFetchAllowlistPrecheckResult{WebFetchAllowlistPrecheckResult: &wire.Empty{}}}
	}
	return nil
}
