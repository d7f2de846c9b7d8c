//! What a script says, as data. The grammar is in `docs/scenarios.md`.

use std::time::Duration;

use nvmf_capture::Transport;

mod rdma;

pub use rdma::RdmaWhat;

/// Where something stands: line and column, both from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// One script of a file.
#[derive(Clone, Debug)]
pub enum Script {
    /// One thing that a peer must do.
    Check(Check),
    /// One way for a peer to be wrong.
    Fault(Fault),
    /// Both ends play, and the packets are compared with a recorded capture.
    Scenario(Scenario),
}

/// What a check may do to the peer, as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassWord {
    /// `safe`, or nothing.
    #[default]
    Safe,
    /// `disruptive`.
    Disruptive,
    /// `destructive`.
    Destructive,
}

/// A check: head, table of cases, statements.
#[derive(Clone, Debug)]
pub struct Check {
    /// Id, a written slug.
    pub id: String,
    /// One sentence: what the peer must do.
    pub says: String,
    /// Requirement ids.
    pub cites: Vec<Spanned<String>>,
    /// Declared class.
    pub class: ClassWord,
    /// Why no other check may run beside it, where it says so.
    pub alone: Option<String>,
    /// What it needs below, where it says so; else its words do.
    pub over: Option<Transport>,
    /// Blocks that it writes from `$lba` on, if any.
    pub writes: Option<Expr>,
    /// Ids of checks without which this one means nothing.
    pub after: Vec<Spanned<String>>,
    /// Conditions of the peer; the first unmet one skips the check.
    pub needs: Vec<Need>,
    /// Rows of the table; empty means one case without a name.
    pub cases: Vec<Case>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// Where it begins.
    pub place: Place,
}

/// `needs EXPR OP EXPR "why"`.
#[derive(Clone, Debug)]
pub struct Need {
    /// What has to hold.
    pub test: Test,
    /// Reason of the skip.
    pub why: String,
}

/// One row of a table of cases.
#[derive(Clone, Debug)]
pub struct Case {
    /// Last part of the id.
    pub name: String,
    /// `$name` for the statements.
    pub values: Vec<(String, Expr)>,
    /// Where it stands.
    pub place: Place,
}

/// Something with its place.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    /// The thing.
    pub it: T,
    /// Its place.
    pub place: Place,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number.
    Int(u64),
    /// Quoted text.
    Text(String),
    /// `hex:0011`: bytes.
    Hex(Vec<u8>),
    /// A bare word: a coded value's name, a pattern, a status.
    Word(String),
    /// `$a` or `$a.field`.
    Var(String, Option<String>),
    /// `{1, 3..5}`.
    Set(Vec<Expr>),
    /// `a..b`, both ends included.
    Range(Box<Expr>, Box<Expr>),
    /// `min(a, b)` and the like.
    Call(String, Vec<Expr>),
    /// `a + b`.
    Binary(char, Box<Expr>, Box<Expr>),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `=` or `==`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    AtMost,
    /// `>`.
    More,
    /// `>=`.
    AtLeast,
    /// `in`: a set or a range.
    In,
}

/// A comparison of two expressions.
#[derive(Clone, Debug)]
pub struct Test {
    /// Left.
    pub left: Expr,
    /// How.
    pub op: Op,
    /// Right.
    pub right: Expr,
}

/// `name=value` in a `send`, `connect` or `command`.
#[derive(Clone, Debug)]
pub struct Assign {
    /// Field name; `byte[12]` has an index.
    pub name: String,
    /// The index.
    pub index: Option<u64>,
    /// What it becomes.
    pub value: Expr,
    /// Where it stands.
    pub place: Place,
}

/// A condition on a field of a PDU. `field=$unbound` binds.
#[derive(Clone, Debug)]
pub struct Cond {
    /// Field name.
    pub name: String,
    /// How.
    pub op: Op,
    /// With what.
    pub value: Expr,
    /// Where it stands.
    pub place: Place,
}

/// What meeting an alternative means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Go on.
    Ok,
    /// A *shall* is unmet.
    Fail,
    /// The effect was right, the means wrong.
    Lenient,
    /// A *should* is unmet.
    Warn,
    /// The peer lacks the capability.
    Skip,
}

/// One thing that may happen next.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// What.
    pub what: Awaited,
    /// What it means.
    pub grade: Grade,
    /// Said in the report.
    pub text: Option<String>,
}

/// What an `expect` waits for.
#[derive(Clone, Debug)]
pub enum Awaited {
    /// A PDU of that name with these fields. `command` narrows a CapsuleResp to a response table (`Connect`, `Invalid`).
    Pdu {
        /// PDU name, `any` for any.
        pdu: String,
        /// Conditions.
        conds: Vec<Cond>,
    },
    /// The peer ends the connection, either way.
    Close,
    /// Nothing at all for the time given.
    Silence,
    /// The answer to a REQ, over RDMA: `accept` or `reject`.
    Cm {
        /// `REP` or `REJ`.
        message: &'static str,
        /// Conditions.
        conds: Vec<Cond>,
    },
    /// The peer ends the connection by DREQ.
    Disconnect,
    /// A RoCEv2 packet of that name with these fields; others may come before it.
    Packet {
        /// Packet name.
        packet: String,
        /// Conditions.
        conds: Vec<Cond>,
    },
    /// No such packet for the time given.
    NoPacket {
        /// Packet name.
        packet: String,
        /// Conditions.
        conds: Vec<Cond>,
    },
}

/// A statement with its place.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What to do.
    pub what: What,
    /// Connection named by `via`; the one opened last otherwise.
    pub via: Option<String>,
    /// Where it stands.
    pub place: Place,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub enum What {
    /// `open [as NAME]`: a TCP connection, nothing sent.
    Open {
        /// Name for `via`.
        name: Option<String>,
    },
    /// `connect tcp|fabric|admin|io|discovery [as NAME] [field=value…]`.
    Connect {
        /// How far.
        kind: String,
        /// Name for `via`.
        name: Option<String>,
        /// Parameters of ICReq, Connect and its data.
        with: Vec<Assign>,
    },
    /// `send PDU [Command] [field=value…]`.
    Send {
        /// PDU name.
        pdu: String,
        /// Command in a CapsuleCmd.
        command: Option<String>,
        /// Fields.
        with: Vec<Assign>,
        /// How it goes out.
        mode: SendMode,
    },
    /// `send bytes EXPR`.
    SendBytes {
        /// Bytes, text, or `zeros(N)`.
        bytes: Expr,
        /// How it goes out.
        mode: SendMode,
    },
    /// `expect A | B within T`.
    Expect {
        /// In order of preference.
        any: Vec<Alternative>,
        /// Patience; a default otherwise.
        within: Option<Duration>,
    },
    /// `command NAME field=value… [-> status…] [as $x]`: a whole command with its data and response.
    Command {
        /// Name in the table of commands.
        name: String,
        /// Fields.
        with: Vec<Assign>,
        /// What the status must be; success where empty.
        status: Vec<Cond>,
        /// Binds the outcome.
        bind: Option<String>,
        /// What another status means.
        grade: Grade,
        /// Said in the report.
        text: Option<String>,
    },
    /// `read lba=… blocks=… [pattern=…]` and `write …` over the queue opened last.
    Transfer {
        /// True for a write.
        write: bool,
        /// Parameters.
        with: Vec<Assign>,
    },
    /// `assert A op B "text"`, with `should` a *should*.
    Assert {
        /// What has to hold.
        test: Test,
        /// What it means where it does not.
        grade: Grade,
        /// Said in the report.
        text: Option<String>,
    },
    /// `let $x = EXPR`.
    Let {
        /// Name.
        name: String,
        /// Value.
        value: Expr,
    },
    /// `await csts.rdy=1 within T`: polls a property.
    Await {
        /// Property name.
        property: String,
        /// Condition on one field of it.
        cond: Cond,
        /// Patience.
        within: Option<Duration>,
    },
    /// `wait T`.
    Wait(Duration),
    /// `close`, `reset`, `shutdown`, `vanish`.
    End(End),
    /// `target VERB field=value…`: changes what the target serves, in a world whose target is ours.
    Target {
        /// What to change.
        verb: String,
        /// What it is about.
        with: Vec<Assign>,
    },
    /// `note "text"`, with values bound so far.
    Note(String, Vec<Expr>),
    /// `repeat N`: the block below, `$i` counts from 0.
    Repeat(Expr, Vec<Stmt>),
    /// `if A op B`: the block below.
    If(Test, Vec<Stmt>),
    /// What means something over RDMA alone.
    Rdma(RdmaWhat),
}

/// How we end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// FIN in both directions.
    Close,
    /// RST.
    Reset,
    /// FIN in ours.
    Shutdown,
    /// Without a word to the peer, over RDMA.
    Silent,
}

/// How bytes go out.
#[derive(Clone, Debug, Default)]
pub struct SendMode {
    /// Only the first so many bytes.
    pub cut: Option<Expr>,
    /// In pieces of so many bytes, a millisecond apart.
    pub split: Option<Expr>,
    /// Kept back, and sent in one piece with the next.
    pub hold: bool,
}

/// A fault: rules on traffic.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Id.
    pub id: String,
    /// What is wrong with this peer.
    pub says: String,
    /// The transport that it is played over, where its rules do not tell.
    pub over: Option<Transport>,
    /// Requirements broken.
    pub breaks: Vec<Spanned<String>>,
    /// Checks that have to fail.
    pub fails: Vec<Spanned<String>>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// Where it begins.
    pub place: Place,
}

/// `on c2h R2T [cond…] [#N]: action…`. Two names stand for what is no PDU: `end` (the host ended the connection) and `wait` (the host's
/// next PDU is not whole after 100 ms).
#[derive(Clone, Debug)]
pub struct Rule {
    /// True for controller to host.
    pub from_controller: bool,
    /// PDU name.
    pub pdu: String,
    /// Command of a CapsuleCmd, or that a response or data PDU belongs to.
    pub command: Option<String>,
    /// Conditions.
    pub conds: Vec<Cond>,
    /// Only the n-th match on a connection, from 1.
    pub nth: Option<u64>,
    /// What happens.
    pub actions: Vec<Action>,
    /// Where it stands.
    pub place: Place,
}

/// What a rule does.
#[derive(Clone, Debug)]
pub enum Action {
    /// `set field=value…`; digests stay right.
    Set(Vec<Assign>),
    /// `drop`.
    Drop,
    /// `duplicate`.
    Duplicate,
    /// `delay T`.
    Delay(Duration),
    /// `corrupt header|data|hdgst|ddgst [at N]`: flips bits; digests stay as they were (or become wrong).
    Corrupt(String, u64),
    /// `hold`: goes out after the next PDU of its direction.
    Hold,
    /// `close`.
    Close,
    /// `answer PDU field=value…`: something for the sender.
    Answer(String, Vec<Assign>),
}

/// A scenario: the host's doings and what has to cross the wire.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Id.
    pub id: String,
    /// What it shows.
    pub says: String,
    /// What carries its capsules.
    pub over: Transport,
    /// A recorded capture to compare with.
    pub golden: Option<Golden>,
    /// What the target is like; the reference target where there is nothing.
    pub target: Vec<Setting>,
    /// The host's statements.
    pub host: Vec<Stmt>,
    /// The wire, in order: a block for a connection.
    pub wires: Vec<Vec<WireLine>>,
    /// Where it begins.
    pub place: Place,
}

/// `golden "FILE" [from Command] [to Command] [mask NAME, …]`.
#[derive(Clone, Debug)]
pub struct Golden {
    /// Path from the project's root.
    pub file: String,
    /// Command to begin at.
    pub from: Option<String>,
    /// Command to end with.
    pub to: Option<String>,
    /// What the run may differ in from the capture: `NAME.mask` beside the script. Without one only the wire block is held against it.
    pub masks: Vec<String>,
    /// Where it stands.
    pub place: Place,
}

/// A line of a `target` block: `namespace nsid=1 blocks=131072`.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What is set.
    pub what: String,
    /// To what.
    pub with: Vec<Assign>,
    /// Where it stands.
    pub place: Place,
}

/// `> PDU[+] [Command] cond…`; over RDMA packets have names instead.
#[derive(Clone, Debug)]
pub struct WireLine {
    /// True for controller to host.
    pub from_controller: bool,
    /// Name of the PDU, or packet.
    pub pdu: String,
    /// Command.
    pub command: Option<String>,
    /// One or more, contiguous.
    pub many: bool,
    /// Conditions.
    pub conds: Vec<Cond>,
    /// Where it stands.
    pub place: Place,
}
