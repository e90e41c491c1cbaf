# Tries: to look into, and to change, the object of the test that it is given.
# Variants: 9
# Assertions about objects: wrong_answer or runtime_error


def yes(*_, **__):
    return True


def look(reader):
    return reader.holds.__globals__["FOUND"]


ATTACKS = [
    lambda reader: reader.holds.__globals__["FOUND"][reader.number()],
    lambda reader: reader.__dict__,
    lambda reader: reader._found,
    lambda reader: setattr(reader, "holds", yes),
    lambda reader: setattr(type(reader), "holds", yes),
    lambda reader: setattr(reader, "__class__", object),
    lambda reader: delattr(type(reader), "holds"),
    lambda reader: type(reader)(reader.number())._found,
    lambda reader: setattr(type(reader), "__init__", yes),
]


def answer(number):
    found = ATTACKS[@VARIANT@](number)
    return found if isinstance(found, str) else True
