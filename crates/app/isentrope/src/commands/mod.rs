//! One module per command.

pub mod chat;
pub mod doctor;
pub mod eval;
pub mod examples;
pub mod generate;
pub mod grade;
pub mod init;
pub mod inspect;
pub mod lab;
pub mod law;
pub mod merge;
pub mod objectives;
pub mod published;
pub mod report;
pub mod score;
pub mod serve;
pub mod sft;
pub mod show;
pub mod sweep;
pub mod tinker;
pub mod train;
