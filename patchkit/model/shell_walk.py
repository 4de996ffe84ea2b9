"""Walks a shell script's tree in the order in which bash would run it, and records each command.

Functions are followed where they are called, loops over known words are unrolled, a branch that the
script's own constants decide is taken. Both branches of any other are followed, each command with
its condition. Nothing is run.
"""

from __future__ import annotations

import fnmatch
import re
from contextlib import ExitStack, nullcontext
from dataclasses import replace

from patchkit.model import shell_scope as scopes
from patchkit.model.shell_effects import NOTHING, effects, joined
from patchkit.model.shell_heredocs import ShellSyntaxError
from patchkit.model.shell_record import MAX_TEXT, Recorder, Result, shown
from patchkit.model.shell_syntax import Node, named, parse, source
from patchkit.model.shell_types import Command, Condition, Content, Relation, Remark, Word
from patchkit.model.shell_words import Unknown, expand, single

_NO_STATEMENTS = ("comment", "word", "file_descriptor")


class Walker(Recorder):
    """One walk: the control flow."""

    def text(self, text: str, offset: int) -> Result:
        """Walk the text of a script inside the script."""
        before = self.heredocs, self.offset
        try:
            root, self.heredocs = parse(text)
            swallowed = _swallowed(root)
            if swallowed:
                root, self.heredocs = parse(_unquoted(text, swallowed))
        except ShellSyntaxError as error:
            lines = ((line + offset, why) for line, why in error.places)
            raise ShellSyntaxError(*lines) from None
        self.offset = offset
        result = self.statements(named(root))
        self.heredocs, self.offset = before
        return result

    def statements(self, nodes: list[Node]) -> Result:
        outs: list[Content] = []
        status: bool | None = True
        for at, node in enumerate(nodes):
            if self.state.ended and node.type != "function_definition":
                self.dead(nodes[at:])
                break
            result = self.run(node)
            outs.append(result.out)
            status = result.status
        outs = [out for out in outs if out.text != ""]
        return Result(joined(*outs) if outs else NOTHING, status)

    def dead(self, nodes: list[Node]) -> None:
        """What stands behind an unconditional `exit` or `return`: recorded as never run."""
        with self.apart(), self.under(nodes[0], "uncalled", [], held=False):
            self.state.ended = ""
            for node in nodes:
                self.run(node)
                self.state.ended = ""

    def run(self, node: Node) -> Result:
        """Walk one statement."""
        known = getattr(self, f"run_{node.type}", None)
        if known is not None:
            result: Result = known(node)
            return result
        if node.type not in _NO_STATEMENTS:
            return self.statements(named(node))
        return Result()

    def run_redirected_statement(self, node: Node) -> Result:
        """A redirection that stands alone, as in `> FILE`, is a command without words."""
        if node.child_by_field_name("body") is not None:
            return super().run_redirected_statement(node)
        made, stdin, writes = self.redirections(list(node.children_by_field_name("redirect")))
        self.record(node, (), made, (), stdin)
        return Result(self.written(writes, NOTHING), True)

    def carry_out(self, command: Command, writes: list[tuple[str, bool]]) -> Result:
        """What a command does; the text of a `trap` is walked, for a time that nobody knows."""
        if command.program in self.functions and command.words[0].text not in self.functions:
            made = effects(command, self.disk)  # `command NAME` in a function that is called NAME
            self.state.write(made.files)
            return Result(self.written(writes, made.out))
        result = super().carry_out(command, writes)
        if command.program == "trap" and not result.out.text:
            self.trap(command)
        return result

    def run_command(self, node: Node) -> Result:
        self.reckon(node, ("arithmetic_expansion",))
        return super().run_command(node)

    def run_variable_assignment(self, node: Node) -> Result:
        target = node.child_by_field_name("name")
        indexed = target is not None and target.type == "subscript"
        self.reckon(node, ("variable_assignment" if indexed else "arithmetic_expansion",))
        return super().run_variable_assignment(node)

    def run_unset_command(self, node: Node) -> Result:
        self.reckon(node, ("unset_command",))
        return super().run_unset_command(node)

    def reckon(self, node: Node, kinds: tuple[str, ...]) -> None:
        """The `$(...)` in those parts of `node` whose value is not told: their commands run all the same."""
        waiting = [(node, False)]
        while waiting:
            each, counts = waiting.pop(0)
            if each.type == "command_substitution":
                if counts:
                    self.substitute(each)
            elif each.type != "expansion":
                waiting += [(child, counts or each.type in kinds) for child in each.children]

    def trap(self, command: Command) -> None:
        words = [word for word in command.argv[1:] if word.text != "--"]
        text = words[0].text if len(words) > 1 else None
        if not text or text.startswith("-") or "trap" in (condition.relation for condition in self.conditions):
            return
        condition = Condition(line=command.line, relation="trap", raw=command.raw.split("\n", 1)[0])
        files, calls = self.state.files, list(self.calls)
        self.conditions.append(condition)
        with self.apart():
            self.text(text + "\n", command.line - 1)
        self.conditions.pop()
        self.state.files, self.calls = files, calls

    def run_list(self, node: Node) -> Result:
        """`A && B`, `A || B`: on the good path B of `&&` runs, B of `||` does not."""
        left, right = node.children[0], node.children[-1]
        is_or = any(child.type == "||" for child in node.children)
        before, start = self.tolerated, len(self.commands)
        if is_or and not self.gives_up(right):
            self.tolerated = f"|| {shown(right)}"
        first = self.run(left)
        self.tolerated = before
        asked = self.commands[start:]
        if first.status is not None and first.status is not is_or:
            return self.run(right)
        never = first.status is not None
        relation: Relation = "or" if is_or else "and"
        state = self.state
        self.state = state.copy()
        with self.under(left, relation, asked, held=False if never else None):
            second = self.run(right)
        branch, self.state = self.state, state
        if never:
            return first
        if branch.ended == "break":
            self.breaks = (left, "and" if is_or else "or", asked)
        elif branch.ended:
            self.remarks.append(Remark(line=self.line(node), kind="ends", text=shown(node)))
        elif is_or:
            self.state.become(state.copy(), branch)
        else:
            self.state = branch
        return Result(joined(first.out, second.out) if not is_or else first.out, None)

    def gives_up(self, node: Node) -> bool:
        """Whether a branch ends the script, or the function, as failed."""
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if each.type == "command":
                words = source(each).split()
                if words[0] == "exit" or (words[0] == "return" and words[1:2] != ["0"]):
                    return words[1:2] != ["0"]
                called = self.functions.get(words[0])
                if called is not None and called[0] != node and words[0] not in self.called_by(node):
                    waiting.append(called[0])
            else:
                waiting += each.children
        return False

    def called_by(self, node: Node) -> set[str]:
        """The function that `node` is the body of: it is not followed into itself."""
        return {name for name, (body, _, _) in self.functions.items() if body == node}

    def run_pipeline(self, node: Node) -> Result:
        stdin = self.state.stdin
        out, status = NOTHING, None
        for at, stage in enumerate(named(node)):
            with self.apart():
                self.state.stdin = stdin if at == 0 else out
                result = self.run(stage)
            out, status = result.out, result.status
        return Result(out, status)

    def run_negated_command(self, node: Node) -> Result:
        result = self.statements(named(node))
        return Result(result.out, None if result.status is None else not result.status)

    def run_subshell(self, node: Node) -> Result:
        with self.apart():
            return self.statements(named(node))

    def run_compound_statement(self, node: Node) -> Result:
        if node.children and node.children[0].type == "((":
            self.reckon(node, ("compound_statement",))
            return Result()
        return self.statements(named(node))

    run_do_group = run_compound_statement

    def run_if_statement(self, node: Node) -> Result:
        parts = [child for child in node.children if child.type != "comment"]
        then = next(at for at, child in enumerate(parts) if child.type == "then")
        condition = [child for child in parts[1:then] if child.is_named]
        others = [child for child in parts if child.type in ("elif_clause", "else_clause")]
        body = [child for child in parts[then:] if child.is_named and child not in others]
        return self.branches(condition, body, others)

    def branches(self, condition: list[Node], body: list[Node], others: list[Node]) -> Result:
        start = len(self.commands)
        before = self.tested, self.tolerated
        strict = any(self.gives_up(each) for each in (*body, *others))
        self.tested, self.tolerated = True, "" if strict else "the failure is a branch of `if`"
        asked = self.statements(condition)
        self.tested, self.tolerated = before
        commands = self.commands[start:]
        head = condition[0]
        state, ends = self.state, list[scopes.State]()
        outs: list[Content] = []
        relation: Relation
        for relation, nodes in (("then", body), ("else", others)):
            held = None if asked.status is None else asked.status is (relation == "then")
            self.state = state.copy()
            with nullcontext() if held else self.under(head, relation, commands, held):
                outs.append(self.branch(nodes))
            if held is not False:
                ends.append(self.state)
        going = [each for each in ends if not each.ended]
        if len(ends) == 2 and going and any(each.ended == "break" for each in ends):
            self.breaks = (head, "else" if ends[0].ended else "then", commands)
        elif len(going) < len(ends) and going:
            self.remarks.append(Remark(line=self.line(head), kind="ends", text=f"if {shown(head)}"))
        self.state = state
        self.state.become(*(going or ends))
        return Result(joined(*outs))

    def branch(self, nodes: list[Node]) -> Content:
        """The body of an `if`, or what follows it: the first `elif` with all that comes after, or `else`."""
        if nodes and nodes[0].type == "elif_clause":
            clause, later = nodes[0], nodes[1:]
            parts = [child for child in clause.children if child.type != "comment"]
            then = next(at for at, child in enumerate(parts) if child.type == "then")
            condition = [child for child in parts[1:then] if child.is_named]
            return self.branches(condition, [c for c in parts[then:] if c.is_named], later).out
        if nodes and nodes[0].type == "else_clause":
            nodes = named(nodes[0])
        return self.statements(nodes).out

    def run_case_statement(self, node: Node) -> Result:
        value = node.child_by_field_name("value")
        text = Unknown("no value") if value is None else single(value, self)
        state, ends = self.state, [self.state.copy()]
        for item in (child for child in node.children if child.type == "case_item"):
            patterns = [source(child).strip("\"'") for child in item.children_by_field_name("value")]
            body = [child for child in named(item) if child not in item.children_by_field_name("value")]
            hit = None
            if isinstance(text, str):
                hit = any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)
            self.state = state.copy()
            if hit:
                result = self.statements(body)
                state.become(self.state)
                self.state = state
                return result
            with self.under(item, "case", [], held=hit):
                self.statements(body)
            if hit is None and not self.state.ended:
                ends.append(self.state)
        self.state = state
        self.state.become(*ends)
        return Result()

    def run_for_statement(self, node: Node) -> Result:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        assert variable is not None
        assert body is not None
        values = [word for child in node.children_by_field_name("value") for word in expand(child, self)]
        words = values or [Word(text=None, raw="", why="the loop's words are not known")]
        outer, depth = self.breaks, len(self.conditions)
        with ExitStack() as later:
            for word in words:
                self.breaks = None
                self.assign(source(variable), Unknown(word.why) if word.text is None else word.text)
                self.run(body)
                if self.state.ended:
                    break
                broken = self.broken()
                if broken is not None and len(self.conditions) == depth:
                    later.enter_context(self.under(*broken, held=None))
        self.breaks = outer
        self.leave_loop()
        return Result()

    def broken(self) -> tuple[Node, Relation, list[Command]] | None:
        """On what the last round may have left the loop, so that no later round runs."""
        return self.breaks

    def leave_loop(self) -> None:
        """`break` ends the loop, and nothing else."""
        if self.state.ended == "break":
            self.state.ended = ""

    def run_c_style_for_statement(self, node: Node) -> Result:
        body = node.child_by_field_name("body")
        for child in node.children:
            if child != body:
                self.reckon(child, (child.type,))
        return Result() if body is None else self.run(body)

    def run_while_statement(self, node: Node) -> Result:
        body = node.child_by_field_name("body")
        start = len(self.commands)
        condition = [child for child in node.children_by_field_name("condition") if child.is_named]
        self.statements(condition)
        state = self.state
        self.state = state.copy()
        with self.under(condition[0], "loop", self.commands[start:], held=None):
            if body is not None:
                self.run(body)
            self.leave_loop()
        branch, self.state = self.state, state
        if not branch.ended:
            self.state.become(state.copy(), branch)
        return Result()

    def run_function_definition(self, node: Node) -> Result:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[source(name)] = (body, self.heredocs, self.offset)
            redirects = node.children_by_field_name("redirect")
            if redirects:  # of each call, wherever it is
                self.record(node, (), self.redirections(redirects)[0], (), None)
        return Result(status=True)


def _swallowed(root: Node) -> set[int]:
    """The lines that start with a backslash, quoting a name, and that the grammar took for more of the line before."""
    found: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        text = source(node) if node.type == "word" else ""
        if text.startswith("\n"):
            found.add(node.start_point[0] + len(text) - len(text.lstrip("\n")))
    return found


def _unquoted(text: str, numbers: set[int]) -> str:
    """The text without the backslash that these lines, counted from 0, start with. Raises ShellSyntaxError."""
    lines = text.split("\n")
    for number in numbers:
        lines[number], count = re.subn(r"^([ \t]*)\\(?=[\w./])", r"\1", lines[number])
        if not count:
            raise ShellSyntaxError((number + 1, f"not understood as bash: {lines[number][:MAX_TEXT]}"))
    return "\n".join(lines)


def walk_uncalled(walker: Walker) -> None:
    """Record the commands of functions that nothing calls, as never run."""
    while True:
        left = sorted(set(walker.functions) - walker.called)
        if not left:
            return
        name = left[0]
        body = walker.functions[name][0]
        node = body.parent if body.parent is not None else body
        walker.remarks.append(Remark(line=node.start_point[0] + 1, kind="uncalled", text=name))
        walker.state = replace(walker.state.copy(), parameters=None, ended="")
        words = (Word(text=name, raw=name),)
        command = Command(line=node.start_point[0] + 1, words=words, raw=name)
        with walker.apart(), walker.under(node, "uncalled", [], held=False):
            walker.call(name, command)
