"""SQLAlchemy ORM: mapped classes, of which only aggregates are answered."""

from __future__ import annotations

from clinic import make
from sqlalchemy import create_engine, func, select
from sqlalchemy.exc import NotSupportedError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    """The mapped classes."""


class Patient(Base):
    """A person, who is protected."""

    __tablename__ = "patients"
    id: Mapped[int] = mapped_column(primary_key=True)
    age: Mapped[int]
    ward: Mapped[str]


engine = create_engine(f"dpsql:///{make()}?analyst=ana")
with Session(engine) as session:
    by_ward = select(Patient.ward, func.count(Patient.id), func.avg(Patient.age)).group_by(Patient.ward)
    print(session.execute(by_ward, execution_options={"epsilon": 0.5}).all())
    try:
        session.get(Patient, 1)
    except NotSupportedError as refusal:
        print(refusal.orig)
engine.dispose()
